"""What machines share behind `config.cache_url`: native code and profiles, signed with one key.

    shared.fetch("native", name)           # bytes that somebody with the key wrote, or None
    shared.send("native", name, payload)   # by a thread, before the program ends

    signature      who may be believed: HMAC over content and name
    object_store   bytes behind a URL, by fsspec
    team_cache     the same with limits of time: it may be slow, away, or read-only
    bundle         one signed file, for images of containers

What is fetched becomes machine code in this process, so nothing leaves this package that was not
signed with the key. And nothing here stops a program: what fails is told once, and things are made
here as if there were no URL.
"""
