"""What runs inside a sandbox: the fork server, the job and the session. Standard library only, small, imports nothing outside itself.

This folder is bound into the sandbox and run by the root file system's interpreter; the host imports only `wire`.
"""
