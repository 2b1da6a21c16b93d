"""What the protocol obliges a client to do, numbered: the table that the tests are held against.

A test that holds one says so: ``@pytest.mark.obligation("C31", "C32")``. `test_obligations` checks
both directions: each obligation has a test, and each mark names an obligation.

Levels are the protocol's: MUST, MUST NOT and SHOULD; `versions` tells in which of its versions an
obligation stands ("1", "2", or both), or that it comes from the proposal for remote transports.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Obligation(NamedTuple):
    """One obligation of the client.

    Attributes:
        level: must, must not or should.
        versions: "1", "2", "12", or "remote" for the proposal of remote transports.
        text: what has to be done, or not.
    """

    level: str
    versions: str
    text: str


_LINES: Final = """
C1 must 12 initialise before any session
C2 must 12 ask for the newest version that is supported
C3 must 12 act by the version that was agreed on
C4 should 12 end the connection and tell the user where no version is in common
C5 must 12 take a capability that was left out as not there
C6 should 12 work with every combination of capabilities
C7 must 12 say who the client is and what it can do
C8 must 12 use absolute paths
C9 must_not 1 log out where that is not advertised
C10 must_not 2 log in or out where no way to log in is named
C11 must_not 12 send the id of a login in a terminal to the agent
C12 must 2 log in by protocol only with methods that the protocol drives
C13 should 12 advertise logins in a terminal only where the user can run the command
C14 should 12 expect to be asked to log in again after logging out
C15 must 1 load a session only where that is advertised
C16 must 1 resume a session only where that is advertised
C17 must 1 close a session only where that is advertised
C18 must 1 list sessions only where that is advertised
C19 must 12 delete a session only where that is advertised
C20 must 12 send further directories only where that is advertised
C21 must 12 name directories absolutely
C22 must 12 send all directories again when a session is opened again
C23 should 12 keep file tools within the directories of the session
C24 must 12 pass MCP servers only by transports that the agent advertises
C25 must 12 take a missing cursor as the end of a list
C26 must 12 send cursors back as they came, and neither read nor keep them
C27 must_not 12 take directories over from a list of sessions
C28 must 12 finish opening a session before prompting in it
C29 must 12 send only such content as the agent advertises
C30 should 12 mark tool calls as cancelled that a cancel left unfinished
C31 must 12 answer open questions for permission with cancelled when the turn is cancelled
C32 should 12 take updates of tool calls after a cancel
C33 should 12 show text as Markdown
C34 must 2 apply updates and chunks of each id in the order of their arrival
C35 must_not 2 join bytes of a terminal from before to a snapshot of it
C36 must_not 2 join base64 before it is decoded
C37 must 2 show diffs that come without a patch
C38 must 12 replace a plan as a whole (in version 2 that of its id)
C39 must 2 take plans that are text or a file, and ones that are removed
C40 must 1 make a file that is written and was not there
C41 must 1 cut the output of a terminal between characters
C42 should 1 go on showing what a terminal had written when it is released
C43 should 1 use options in place of modes where both are there, and else modes
C44 should 12 keep the order of options, of which the first counts most
C45 must 12 take options without a category or of one that nobody knows
C46 must_not 12 need categories to work right
C47 should 12 show options of the model beside the model
C48 should 12 leave out options of unknown types; in version 2 keep them as they came
C49 must 12 name the agent that asks, and offer to decline and to cancel
C50 must 12 let the user look through answers and change them before they are sent
C51 must 12 show the host of an address and have consent before it is visited
C52 should 12 show the message of a question
C53 should 12 check values by the form
C54 should 12 fill in the defaults of a form
C55 should 12 answer by the schema of the form
C56 must 12 take the id of a question as it is
C57 must 12 ignore the completion of what is unknown or was completed
C58 must_not 12 open or fetch an address without consent; show it in full
C59 must 12 open an address where neither the client nor a model sees into it
C60 should 12 make the domain stand out and warn of look-alikes
C61 should_not 12 make links of addresses elsewhere in a question
C62 must_not 12 show an unknown mode or type of field as a known one
C63 must_not 12 add fields to types of the protocol
C64 must_not 12 take anything for granted about metadata
C65 should 12 keep the names of trace contexts in metadata for those
C66 must 12 answer requests that are extensions
C67 should 12 ignore notifications that nobody knows
C68 should 12 advertise extensions in the metadata of capabilities
C69 must_not 2 make up values without an underscore, or take unknown ones as extensions
C70 should 2 keep values that are unknown, with all that came with them
C71 should 2 show what is unknown in a general form
C72 must 12 answer a request that was withdrawn, by its result or as cancelled
C73 should 12 answer with the code for cancelled what was cancelled inside the client
C74 must 12 take providers that speak a protocol which nobody knows
C75 must 12 write UTF-8
C76 must_not 12 write newlines within a message
C77 must_not 12 write anything but messages to the agent's input
C78 should 12 speak over standard input and output
C79 must 12 keep the form and the course of messages over other transports
C80 must 2 answer an empty batch by one error, notifications not at all, and never by an empty one
C81 should 2 answer a batch by one, and match answers by their ids
C82 should_not 2 put messages of a connection's or a session's beginning and end into a batch
C83 should_not 12 use null or fractions as ids
C84 must remote speak over HTTP and over WebSocket
C85 must remote use HTTP/2 for HTTP
C86 must remote keep cookies and send them back
C87 must remote name the media types of what is sent and expected
C88 must remote send the ids of connection and session
C89 should remote send the version of the protocol
"""

OBLIGATIONS: Final[dict[str, Obligation]] = {
    number: Obligation(level.replace("_", " "), versions, text)
    for number, level, versions, text in (
        line.split(" ", 3) for line in _LINES.strip().splitlines()
    )
}
"""By their numbers, in order."""
