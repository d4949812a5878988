"""Runs a program on a terminal of its own.

Arguments: a text, then the program and its arguments. Ctrl-C is typed as soon as the text is shown; with an empty text
it never is. Prints what the terminal showed, and the exit code as a shell has it.
"""

import fcntl
import json
import os
import pty
import struct
import sys
import termios

COLUMNS = 200


def main():
    awaited, argv = sys.argv[1].encode(), sys.argv[2:]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    shown = b""
    while True:
        try:
            block = os.read(terminal, 4096)
        except OSError:  # Linux says so when the last writer is gone.
            break
        if not block:
            break
        shown += block
        if awaited and awaited in shown:
            os.write(terminal, b"\x03")
            awaited = b""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    print(json.dumps({"shown": shown.decode(), "code": code if code >= 0 else 128 - code}))


main()
