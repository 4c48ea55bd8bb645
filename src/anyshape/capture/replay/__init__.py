"""Equal layers are watched once or twice, and from then on replayed.

A model of 32 equal layers runs the same Python 32 times. What a capture does while it runs is a
function of what it has read, and everything that it has read is guarded; so the guards of one call
say when another call would be captured the same way, as they do between two calls of the compiled
program. A call of a module that was captured (at `L['self'].layers[1]`) is replayed for another one
(`L['self'].layers[2]`) if

- the arguments are alike: the same structure, constants, symbolic shapes, exact layouts, modes;
- everything that was read or guarded below the one path holds below the other, objects that were
  new there are new here, and those that were shared with something are shared with the same;
- nothing is left of the first call but guards, reads and operations of the graph: no change of an
  object, no assumption about sizes, no number from data. Whatever does something else says so.

A replay then adds the same guards and inputs, with the one path for the other, runs the same
operations for real, and appends the same nodes. It does not run the Python between them.

    log         `Tracer.log`: what a capture did, in order; a call is a stretch of it
    events      an operation as it lies on the log
    forms       arguments and results without their tensors
    layer_trace a stretch of the log as checks and actions; or why it is none
    checks      whether a guard holds below another path
    replayer    performs the actions
    layers      which call is replayed for which

Whatever is in doubt is watched, as if there were no replay. `layers.switch` is for tests, which
compare captures with and without.
"""
