"""Stands between two peers that exchange lines, and records what passes: recorder.py LOG (SOCKET | COMMAND [ARGUMENT...])

The other peer is a socket, or a command that is started. What it receives is in LOG.PID.to, what it sends in LOG.PID.from.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread


def opened(target):
    """The streams to and from the other peer."""
    if Path(target[0]).is_socket():
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(target[0])
        return connection.makefile("wb"), connection.makefile("rb"), lambda: connection.shutdown(socket.SHUT_WR)
    process = subprocess.Popen(target, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return process.stdin, process.stdout, process.stdin.close


def copy(source, target, log):
    with open(log, "ab", buffering=0) as record:
        for line in source:
            # Recorded first, so that who has received it finds it there.
            record.write(line)
            target.write(line)
            target.flush()


def main(log, *target):
    to, coming, end = opened(target)
    back = Thread(target=copy, args=(coming, sys.stdout.buffer, f"{log}.{os.getpid()}.from"))
    back.start()
    copy(sys.stdin.buffer, to, f"{log}.{os.getpid()}.to")
    end()
    back.join()


main(*sys.argv[1:])
