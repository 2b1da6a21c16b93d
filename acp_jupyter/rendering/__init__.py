"""How a transcript looks: entries become HTML and plain text, and nothing in them is trusted.

::

    characters   which characters are dangerous, and how they are shown instead; shortening
    elements     HTML built from elements that escape what they are given
    ansi         terminal output: colours kept, other escape sequences dropped
    highlighting code to coloured HTML (pygments)
    markdown     an agent's Markdown to sanitised static HTML
    segments     a growing message cut so that it does not send itself again and again
    images       pictures and sound, checked before they are embedded
    diff         changes of files, compared and folded
    changes      files that changed while a turn ran
    words        the client's own wording, the same in HTML and in plain text
    blocks       content blocks
    toolcalls, permissions, notes    groups of entries as HTML
    html, text   any entry as HTML; any entry as plain text
    entrydata    the data of an entry, for a frontend that does more than show HTML
    mimebundle   any entry as a Jupyter MIME bundle

The layer is pure: it reads entries and returns strings. The libraries it needs (markdown-it,
nh3, pygments) are imported at first use, because a kernel that starts needs none of them.
"""
