"""Makes one system call of a hostile server. usage: calls.py NAME [ARGUMENT...]

Exit code: 0 if the call has its effect, 77 if this kernel does not have it. Otherwise the error is on stderr.
"""

import ctypes
import errno
import fcntl
import os
import platform
import socket
import stat
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
X32 = 0x40000000


def call(number, *arguments):
    converted = [ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_long(value) for value in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def since(major, minor):
    version = platform.release().split(".")
    if (int(version[0]), int(version[1].split("-")[0])) < (major, minor):
        sys.exit(77)


def unnamed(path, mode):
    try:
        fd = call(257, AT_FDCWD, os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY, mode)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR):
            sys.exit(77)
        raise
    call(265, AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, path, AT_SYMLINK_FOLLOW)


def newer(number, version, *arguments):
    since(*version)
    return call(number, *arguments)


# Calls that change the mode of a file, and of the ABI x32.
CHANGING = {
    "chmod": lambda path, mode: call(90, path, mode),
    "fchmod": lambda path, mode: call(91, os.open(path, os.O_RDONLY), mode),
    "fchmodat": lambda path, mode: call(268, AT_FDCWD, path, mode),
    "fchmodat2": lambda path, mode: newer(452, (6, 6), AT_FDCWD, path, mode, 0),
    "x32_chmod": lambda path, mode: call(X32 | 90, path, mode),
    "x32_fchmodat": lambda path, mode: call(X32 | 268, AT_FDCWD, path, mode),
}
CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY
CREATING = {
    "open": lambda path, mode: call(2, path, CREATE, mode),
    "openat": lambda path, mode: call(257, AT_FDCWD, path, CREATE, mode),
    "openat2": lambda path, mode: newer(437, (5, 6), AT_FDCWD, path, struct.pack("QQQ", CREATE, mode, 0), 24),
    "open_tmpfile": unnamed,
    "creat": lambda path, mode: call(85, path, mode),
    "mknod": lambda path, mode: call(133, path, stat.S_IFREG | mode, 0),
    "mknodat": lambda path, mode: call(259, AT_FDCWD, path, stat.S_IFREG | mode, 0),
}


def set_mode(name, path, mode, *program):
    """Sets this mode, by this call, for a new file, which may be a copy of a program. The file stays if it is one."""
    path, mode = path.encode(), int(mode, 8)
    os.umask(0)
    try:
        if name in CHANGING:
            with open(path, "xb") as file:
                file.write(open(program[0], "rb").read() if program else b"")
            os.chmod(path, 0o755)
            CHANGING[name](path, mode)
        else:
            CREATING[name](path, mode)
        if stat.S_IMODE(os.stat(path).st_mode) != mode:
            sys.exit("the mode is another one")
    finally:
        if not program and os.path.exists(path):
            os.remove(path)


def set_mode_of_directory(path, mode):
    os.mkdir(path)
    try:
        os.chmod(path, int(mode, 8))
    finally:
        os.rmdir(path)


def make_directory(path, mode):
    os.mkdir(path, int(mode, 8))
    os.rmdir(path)


def create_socket(family, kind, protocol):
    """Creates a socket. A family that the kernel has no module for is refused with the same errors as by a sandbox."""
    call(41, int(family), int(kind), int(protocol))


def own_terminal():
    """Types a character into a terminal of its own."""
    master, slave = os.openpty()
    if os.fork() == 0:
        try:
            os.setsid()
            fcntl.ioctl(slave, 0x540E, 0)
            fcntl.ioctl(slave, 0x5412, b"x")
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.wait()[1])
    os.close(master)
    if code:
        sys.exit(os.strerror(code))


def receive_udp(port):
    """Receives a datagram of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", int(port)))
        receiver.sendto(b"x", receiver.getsockname())
        receiver.recv(1)


OTHERS = {
    "set_mode": set_mode,
    "set_mode_of_directory": set_mode_of_directory,
    "make_directory": make_directory,
    "socket": create_socket,
    "socketpair": lambda family, kind: call(53, int(family), int(kind), 0, ctypes.addressof((ctypes.c_int * 2)())),
    "interfaces": lambda: socket.if_nameindex(),
    "own_terminal": own_terminal,
    "listen": lambda: socket.socket().listen(),
    "listen_ipv6": lambda: socket.socket(socket.AF_INET6).listen(),
    "receive_udp": receive_udp,
    "watch": lambda path: call(254, call(253), path.encode(), 2),
    "set_times": lambda path: os.utime(path, ns=(os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns)),
    "control_queue": lambda id: call(71, int(id), 2, bytes(256)),
    "create_posix_queue": lambda name: call(240, name.encode(), os.O_CREAT | os.O_RDONLY, 0o600, 0),
    "open_posix_queue": lambda name: call(240, name.encode(), os.O_RDONLY, 0, 0),
    "remove_posix_queue": lambda name: call(241, name.encode()),
    "add_key": lambda: call(248, b"user", b"k", b"v", 1, -1),
    "request_key": lambda: call(249, b"user", b"k", b"", 0),
    "find_session_keyring": lambda: call(250, 0, -3, 0),
    "join_session_keyring": lambda: call(250, 1, b"k"),
    "x32_add_key": lambda: call(X32 | 248, b"user", b"k", b"v", 1, -1),
    "set_up_ring": lambda: call(425, 1, bytes(120)),
    "register_ring": lambda: call(427, 0, 0, 0, 0),
    "name_file": lambda: call(303, AT_FDCWD, b"/usr", struct.pack("Ii", 128, 0) + bytes(128), bytes(4), 0),
    "open_by_name": lambda: call(304, 0, struct.pack("Ii", 8, 1) + bytes(8), 0),
    "open_file_system": lambda: call(430, b"tmpfs", 0),
    "watch_page_faults": lambda: call(323, 1),
}

if platform.machine() != "x86_64":
    sys.exit(77)
try:
    OTHERS[sys.argv[1]](*sys.argv[2:])
except OSError as error:
    sys.exit(str(error))
