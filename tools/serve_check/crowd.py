"""Many clients that never get on, in a process of their own, so that who measures is not slowed by them.

    python3 crowd.py clients PORT FROM COUNT SECONDS < BYTES     each sends these bytes, reads nothing, and comes again when closed
    python3 crowd.py endless PORT FROM COUNT SECONDS < BYTES     the same, then sends chunks without an end
"""

import asyncio
import resource
import socket
import sys

CHUNK = b"8000\r\n" + b"a" * 0x8000 + b"\r\n"
# A client that is turned away comes again, but not as fast as a machine can.
PAUSE = 0.25
# Nothing that is not read is taken by our side: what is sent waits on the other.
RECEIVED = 4096


def connection(source):
    one = socket.socket()
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)
    one.bind((source, 0))
    return one


async def client(port, source, data, endless):
    loop = asyncio.get_running_loop()
    while True:
        with connection(source) as one:
            try:
                await loop.sock_connect(one, ("127.0.0.1", port))
                await loop.sock_sendall(one, data)
                while endless:
                    await loop.sock_sendall(one, CHUNK)
                # Its end shows in the state of the connection; not a byte is read.
                while one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == b"\x01":
                    await asyncio.sleep(PAUSE)
            except OSError:
                pass
        await asyncio.sleep(PAUSE)


async def crowd(port, source, count, seconds, data, endless):
    tasks = [asyncio.create_task(client(port, source, data, endless)) for _ in range(count)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()


def main(what, port, source, count, seconds):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(crowd(int(port), source, int(count), float(seconds), sys.stdin.buffer.read(), what == "endless"))


if __name__ == "__main__":
    main(*sys.argv[1:])
