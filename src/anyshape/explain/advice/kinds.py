"""What there is to say of each kind of cause: one row a kind.

`{function}`, `{names}` (what changed, as the program has it), `{values}` (those that were seen),
`{seen}` ("x.size(0) was seen as 2, 3"), `{detail}` and `{line}` stand for the case at hand.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    title: str
    cause: str
    remedy: str
    #: whether naming the sources as dynamic is the remedy
    lists_sources: bool = False
    #: settings that are part of it
    settings: tuple[tuple[str, bool], ...] = ()
    #: the change to propose: a row of `patches.py`
    patch: str = ""


KINDS: Final = {
    # -- sizes and integers --------------------------------------------------------------------
    "static_first": Row(
        "static at first, dynamic later: {names}",
        "The first compile takes every size as static. {seen}: what changes"
        " becomes dynamic in the next compile, and the earlier one was for nothing.",
        "Say from the start that it is dynamic: with config.dynamic_sources, with a mark on the"
        " tensor before the call, or with a contract (anyshape.compile(shapes=...)). The profile"
        " does the same from the second run on.",
        lists_sources=True,
        patch="mark",
    ),
    "held_static": Row(
        "kept static by config.{detail}: {names}",
        "{seen}, and each value is compiled for: config.{detail} is"
        " {state}, and keeps it static whatever was seen.",
        "Name it in config.dynamic_sources, which overrides the setting; or set"
        " config.{detail} = {flipped} for all of its kind.{branch}",
        lists_sources=True,
    ),
    "automatic_off": Row(
        "kept static, since config.automatic_dynamic is off: {names}",
        "{seen}, and each value is compiled for: what was seen to change is not made dynamic.",
        "Set config.automatic_dynamic = True, or name what changes in config.dynamic_sources, or"
        " mark it.",
        lists_sources=True,
        patch="mark",
    ),
    "zero_one": Row(
        "0 and 1 are specialized: {names}",
        "{seen}, and config.specialize_zero_one is on.",
        "Set config.specialize_zero_one = False: 0 and 1 are sizes like others then, unless the"
        " program itself tells them apart.",
        settings=(("specialize_zero_one", False),),
    ),
    "dynamic_false": Row(
        "kept static by dynamic=False: {names}",
        "{seen}; dynamic=False asks for a compile for each set of sizes.",
        "Drop dynamic=False, and name what changes in config.dynamic_sources.",
        lists_sources=True,
        patch="drop_dynamic_false",
    ),
    "marked_static": Row(
        "kept static by the program: {names}",
        "{seen}; {detail}.",
        "Drop the mark, or name it in config.dynamic_sources, which overrides marks.",
        lists_sources=True,
    ),
    "branch": Row(
        "a line of the program branches on {names}",
        "{seen}, and `{code}` takes another branch for some of them"
        " ({condition}). Each branch is compiled on its own.",
        "If the line is a check that always holds, say so with anyshape.check(...) or"
        " torch._check(...). If both branches can be one formula (torch.where, arithmetic, a"
        " mask), write that. If they really differ, one compile each is right.",
    ),
    "loop": Row(
        "a loop runs as often as {names} says",
        "{seen}, and `{code}` is unrolled: each count is compiled on its own.",
        "Replace the loop by an operation on a tensor (sum, cumsum, a batched product), or keep"
        " the loop outside of the compiled function and compile its body.",
    ),
    "constant": Row(
        "{names} is specialized: a line needs its value",
        "{seen}, and `{code}` needs its value: {detail}. What is computed"
        " from it then is part of the program.",
        "Compute it with operators that are captured (arithmetic, torch), or outside of the"
        " compiled function, and pass the result as a tensor.",
    ),
    "equality": Row(
        "two sizes were equal when it was compiled",
        "`{code}` relies on {condition} ({detail}), and {seen}. If one of"
        " the two is static, the other is specialized with it.",
        "If they are always equal, say so: anyshape.check(a.size(0) == b.size(0)), and let both"
        " be dynamic. If one is 1 at times, it is broadcast, which is another graph: expand it"
        " before the call.",
    ),
    "tied": Row(
        "a static size specializes a dynamic one: {names}",
        "`{code}` needs equal sizes ({detail}). {names} was static, and specialized the other"
        " with it; it was seen as {values}.",
        "Let both be dynamic: name this one in config.dynamic_sources as well, or mark it too.",
        lists_sources=True,
        patch="mark",
    ),
    "one_symbol": Row(
        "two sizes were equal by accident in the first compile",
        "config.duck_shape is on: sizes that are equal in the first call are one symbol, and"
        " {condition} does not always hold.",
        "Set config.duck_shape = False: equal sizes are then told apart.",
        settings=(("duck_shape", False),),
    ),
    "range": Row(
        "{names} left the range that it was compiled for",
        "The entry is for {condition}, and {values} came.",
        "Widen the range of the mark, or of the contract.",
    ),
    "operator": Row(
        "an operator specializes {names}",
        "`{code}` only works at the size that it was captured with: {detail}.",
        "Use another operator for it, or pad the tensor to a size that stays.",
    ),
    # -- all else ------------------------------------------------------------------------------
    "float": Row(
        "{names} is a float that changes",
        "{seen}. A float is part of the program until it is seen to change,"
        " and always where config.specialize_float is set, or the program asks for its value.",
        "Set config.specialize_float = False, and name it in config.dynamic_sources: it is an input"
        " then. Or pass it as a tensor.",
        lists_sources=True,
        settings=(("specialize_float", False),),
    ),
    "training": Row(
        "the model is called both for training and for evaluation",
        "{seen}: modules such as dropout do something else in each.",
        "One compile for each is right. If only one was meant, call model.train() or"
        " model.eval() once, before the first call.",
    ),
    "value": Row(
        "{names} is a value that changes",
        "{names}, {source_kind}, was seen as {values}, and what the program does may depend on"
        " it: `{code}`.",
        "If it only counts or names things, do not read it in the compiled function. If it"
        " chooses what is computed, one compile for each value is right: make sure there are few"
        " of them. If it is a number to compute with, pass it as a tensor.",
    ),
    "state": Row(
        "{mode} changes between calls",
        "The function was called with {mode} as {values}; the call here is the one that differs.",
        "{mode_remedy}",
    ),
    "dtype": Row(
        "{names} comes in several dtypes",
        "{seen} (the call at {call}): each dtype is compiled on its own.",
        "Convert it before the call, if one dtype is meant: .to({expected}).",
    ),
    "device": Row(
        "{names} comes from several devices",
        "{names} was seen on {values} (the call at {call}): each device has code of its own.",
        "Move it before the call, if one device is meant: .to('{expected}').",
    ),
    "requires_grad": Row(
        "{names} needs a gradient in some calls only",
        "requires_grad of {seen} (the call at {call}): the graph for"
        " training keeps what the backward pass needs.",
        "If no gradient is needed, pass x.detach(); if one is, let it be needed from the first"
        " call on. One compile for training and one without is right.",
    ),
    "rank": Row(
        "{names} has another number of dimensions in some calls",
        "{names} was seen with {values} dimensions (the call at {call}): dynamic shapes are"
        " about sizes, not about how many there are.",
        "Bring it to one number of dimensions before the call: x.unsqueeze(0), x.reshape(...).",
    ),
    "layout": Row(
        "{names} lies differently in memory in some calls",
        "{seen} (the call at {call}).",
        "Call .contiguous() on it before the call.",
        patch="contiguous",
    ),
    "stride": Row(
        "{names} lies differently in memory in some calls",
        "The strides of {names} were seen as {values} (the call at {call}).",
        "Call .contiguous() on it before the call.",
        patch="contiguous",
    ),
    "type": Row(
        "{names} is of several types",
        "{seen} (the call at {call}).",
        "Bring it to one type before the call, for example with torch.as_tensor(...).",
    ),
    "identity": Row(
        "{names} is another object in some calls",
        "{condition}, and then it was {actual}. What is a function, class or module is part of"
        " the program.",
        "Make it once, before the first call: a function that is defined anew for each call is a"
        " new program each time.",
    ),
    "length": Row(
        "{names} has several lengths",
        "{condition}, and then it was {actual}: the program goes through it item by item.",
        "Stack the items into one tensor (torch.stack, torch.nn.utils.rnn.pad_sequence): its"
        " size may change without a compile.",
    ),
    "keys": Row(
        "{names} has several sets of keys",
        "{condition}, and then it was {actual}.",
        "Use the same keys in the same order in every call, with None for what is not there.",
    ),
    "attribute": Row(
        "an attribute is there in some calls only",
        "{condition}, and then {actual}.",
        "Set it in __init__, so that it is always there.",
    ),
    "same_object": Row(
        "two arguments were one object when it was compiled",
        "{condition}, and then they were {actual}.",
        "Make the first call with different objects, as later ones are.",
    ),
    "distinct": Row(
        "two arguments are one object in some calls",
        "{condition}, and then {actual}. Changes to one would be changes to the other.",
        "Pass a copy (x.clone()) where both are meant apart.",
    ),
    "predicate": Row(
        "something that the program relied on changed",
        "{condition}, and then it did not hold.",
        "See the line, and keep what it reads the same between calls.",
    ),
    "unknown": Row(
        "something that the program relied on changed",
        "{text}",
        "See the reason, and keep what it names the same between calls.",
    ),
    # -- not compiled, or not in one piece ---------------------------------------------------------
    "recompile_limit": Row(
        "it hit the recompile limit of {detail}: calls that match no entry run eagerly",
        "The limit is config.recompile_limit. The last reason: {text}.",
        "Remove the causes that are listed for it; to raise the limit only delays it.",
    ),
    "graph_break": Row(
        "a graph break at a data-dependent branch",
        "`{code}`: {detail}. The graph before it runs first, to know which branch to take.",
        "{hints}",
    ),
    "runs_eagerly": Row(
        "it is not compiled",
        "`{code}`: {detail}.",
        "{hints}",
    ),
}

#: The parts of torch's own state that an entry is for, in the order of
#: `capture/record/torch_state.py`, with what to do where one changes.
STATE: Final = (
    (
        "grad mode",
        "Call it in one mode: put torch.no_grad() or torch.inference_mode() around all calls, or"
        " around none. A warm-up call must be made as later calls are.",
    ),
    ("the stack of torch function modes", "Enter the mode before the first call, or not at all."),
    ("the stack of torch dispatch modes", "Enter the mode before the first call, or not at all."),
    ("the default dtype", "Call torch.set_default_dtype once, before the first call."),
    ("autocast", "Call it under autocast always, or never."),
    ("inference mode", "Call it under torch.inference_mode() always, or never."),
    (
        "deterministic mode",
        "Call torch.use_deterministic_algorithms once, before the first call.",
    ),
    ("function transforms", "Call it inside of vmap or grad always, or never."),
    ("torch functions", "Call it with torch functions enabled always, or never."),
    ("hooks for saved tensors", "Call it with the hooks always, or never."),
    ("torch.jit tracing", "Call it while torch.jit traces always, or never."),
    ("forward-mode differentiation", "Call it inside of dual_level always, or never."),
    ("functions and methods of torch", "Replace them before the first call."),
)
