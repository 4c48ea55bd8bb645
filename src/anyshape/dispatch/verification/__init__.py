"""Calls checked against eager (`config.verify_calls`).

In: a call that an entry is about to serve. The program runs eagerly on copies of all that it reads,
then the entry serves the call, and results, changes, exceptions and random states are compared.
Out: nothing, or a `VerificationError` (an event, with `config.on_verify = "event"`).

    with config.patch(verify_calls=1.0): compiled(x)

Knows of entries only what `calls.VerifiedEntry` says; nothing here runs unless the setting is on.
"""

from anyshape.dispatch.verification.calls import VerifiedCalls, VerifiedEntry, runs_eagerly

__all__ = ["VerifiedCalls", "VerifiedEntry", "runs_eagerly"]
