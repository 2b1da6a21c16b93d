"""The folders that agents work in: how they were, what has changed, and copies of them.

The modules:

    git          commands of git that start no program which a repository names
    index        what a repository's index knows of the files
    disk         files below a folder, looked at and put in place without races
    contents     what files held, kept for a while
    snapshot     how the files of a folder are at one moment
    patch        two versions of a file as a git patch
    comparison   what differs between two moments, or two folders
    watch        what changed while a turn ran
    restoring    putting files back as they were
    shown        putting them in place where they are open in an editor
    copies       copies of a folder, and worktrees of a repository
    isolated     a copy in which an agent works, until it is accepted or discarded
"""
