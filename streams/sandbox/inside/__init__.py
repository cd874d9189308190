"""What runs inside a sandbox: the fork server, the job and the session.

Small, standard library only, imports nothing outside itself: this folder is bound into the sandbox and run by the root
file system's interpreter. All that it imports lies in every job's memory and is copied by every fork.
"""
