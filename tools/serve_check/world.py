"""A place for attacks: its own network, where every address is ours, and a root where every write of the server is seen."""

import contextlib
import http.server
import os
import pathlib
import shutil
import socket
import socketserver
import struct
import subprocess
import sys
import threading

# Addresses on the loopback of the network: two that are public elsewhere, and those that nobody's film comes from.
PUBLIC = ["93.184.216.34", "2606:4700::5"]
PRIVATE = [
    "10.0.0.5", "172.16.0.5", "192.168.1.5", "169.254.169.254", "100.64.0.5", "198.18.0.5", "192.0.0.5", "240.0.0.5",
    "fc00::5", "fd12:3456::5", "64:ff9b::7f00:1", "2002:7f00:1::5", "2001:db8::5",
]  # fmt: skip
PORTS = (80, 443, 8080)


def enter(words):
    """Runs this script again inside of namespaces of its own; what is started there ends with it."""
    inside = ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        inside += ["--user", "--map-root-user"]
    return subprocess.Popen([*inside, sys.executable, *words], stdout=subprocess.PIPE, text=True)


def run(*words):
    subprocess.run([str(word) for word in words], check=True, stdin=subprocess.DEVNULL)


class Names(socketserver.BaseRequestHandler):
    """A stub resolver: some names, each with its addresses; `flip` gives another answer to every second question."""

    table = {
        "films.example": [PUBLIC[0]],
        "six.films.example": [PUBLIC[1]],
        "other.example": [PUBLIC[0]],
        "ten.example": ["10.0.0.5"],
        "home.example": ["192.168.1.5"],
        "loop.example": ["127.0.0.1"],
        "six.example": ["::1"],
        "unique.example": ["fc00::5"],
        "mapped.example": ["::ffff:127.0.0.1"],
        "nat.example": ["64:ff9b::7f00:1"],
        "sixtofour.example": ["2002:7f00:1::5"],
        "metadata.example": ["169.254.169.254"],
        "zero.example": ["0.0.0.0"],
        "carrier.example": ["100.64.0.5"],
        "future.example": ["240.0.0.5"],
        "mixed.example": [PUBLIC[0], "10.0.0.5", "127.0.0.1"],
        "flip.example": [PUBLIC[0]],
        "flop.example": [PUBLIC[0]],
    }
    asked, lock = [], threading.Lock()

    def handle(self):
        data, reply = self.request
        end, labels = 12, []
        while data[end]:
            labels.append(data[end + 1 : end + 1 + data[end]].decode("latin-1"))
            end += 1 + data[end]
        end += 5
        name, (kind,) = ".".join(labels).lower(), struct.unpack("!H", data[end - 4 : end - 2])
        with Names.lock:
            Names.asked.append(name)
            times = Names.asked.count(name)
        found = Names.table.get(name)
        # Two questions, A and AAAA, belong to one lookup.
        if name == "flip.example" and times > 2:
            found = ["127.0.0.1"]
        if name == "flop.example" and (times + 1) // 2 % 2 == 0:
            found = ["10.0.0.5"]
        addresses = [one for one in found or [] if (":" in one) == (kind == 28)] if kind in (1, 28) else []
        flags = 0x8180 if found is not None else 0x8183
        answer = data[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0) + data[12:end]
        for one in addresses:
            packed = socket.inet_pton(socket.AF_INET6 if kind == 28 else socket.AF_INET, one)
            answer += struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(packed)) + packed
        reply.sendto(answer, self.client_address)


class Web(http.server.BaseHTTPRequestHandler):
    """What listens on every address. It remembers who came, and where to."""

    visits, pages, protocol_version = [], {}, "HTTP/1.1"

    def answer(self):
        address = self.connection.getsockname()[0]
        length = self.headers.get("Content-Length")
        body = self.rfile.read(int(length)) if length else b""
        Web.visits.append((address, self.command, self.path, body))
        page = Web.pages.get(self.path.split("?")[0])
        if callable(page):
            page(self)
            return
        status, headers, content = page or (404, {}, b"not here")
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(OSError):
                self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, family, address, port):
        self.address_family = family
        super().__init__((address, port), Web)

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "here", self.server_address[1]

    def get_request(self):
        connection, address = super().get_request()
        # Also of those who say nothing, or speak TLS.
        Web.visits.append((connection.getsockname()[0], "connection", "", b""))
        return connection, address

    def handle_error(self, *_):
        pass


def private_visits():
    """Those that came to an address they must not have come to; the server under attack is on the loopback, too."""
    allowed = {*PUBLIC, "::ffff:93.184.216.34"}
    return [visit[:3] for visit in Web.visits if visit[0] not in allowed]


def visited():
    """The addresses among them, in a line."""
    return ", ".join(sorted({f"{address} {kind} {path}".strip() for address, kind, path in private_visits()}))


def active_opens():
    """TCP connections that anybody in this network tried to open, also those that nobody answered."""
    lines = [line.split() for line in pathlib.Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Tcp:")]
    return int(lines[1][lines[0].index("ActiveOpens")])


def network(folder):
    """The network with its resolver and listeners. Only inside of `enter`."""
    run("ip", "link", "set", "lo", "up")
    six = pathlib.Path("/proc/net/if_inet6").exists()
    for address in PUBLIC + PRIVATE:
        if ":" not in address:
            run("ip", "address", "add", f"{address}/32", "dev", "lo")
        elif six:
            run("ip", "-6", "address", "add", f"{address}/128", "dev", "lo", "nodad")
    etc = folder / "etc"
    etc.mkdir()
    (etc / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    (etc / "nsswitch.conf").write_text("hosts: files dns\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    servers = [socketserver.ThreadingUDPServer(("127.0.0.1", 53), Names)]
    for port in PORTS:
        servers.append(Listener(socket.AF_INET, "0.0.0.0", port))
        if six:
            servers.append(Listener(socket.AF_INET6, "::", port))
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return six


class Root:
    """A root for the server: the machine's, with all that it writes kept apart. Its folder of work is the same as outside."""

    def __init__(self, folder):
        self.folder = folder
        self.upper, self.merged = folder / "layers" / "upper", folder / "merged"
        (folder / "layers").mkdir()
        self.merged.mkdir()
        # The layers must not lie in what they lie upon.
        run("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", folder / "layers")
        self.upper.mkdir()
        (folder / "layers" / "work").mkdir()
        run(
            "mount", "-t", "overlay", "overlay", "-o",
            f"lowerdir=/,upperdir={self.upper},workdir={folder / 'layers' / 'work'}", self.merged,
        )  # fmt: skip
        for name in ("proc", "dev", "sys"):
            run("mount", "--rbind", f"/{name}", self.merged / name)
        for name in ("resolv.conf", "nsswitch.conf", "hosts"):
            target = self.merged / "etc" / name
            target.unlink(missing_ok=True)
            shutil.copyfile(folder / "etc" / name, target)
        inside = self.merged / str(folder).lstrip("/")
        inside.mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", folder, inside)
        self.before = self.listing()

    def listing(self):
        return set(snapshot(self.upper))

    def wrap(self, home):
        return ["chroot", str(self.merged), "env", f"--chdir={home}"]

    def written(self):
        """What was created, changed or removed anywhere outside of the folder of work."""
        return sorted(name for name in self.listing() - self.before)


def snapshot(folder, without=()):
    """All names below a folder with what would change if somebody wrote there."""
    found = {}
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if pathlib.Path(top, name) not in without]
        for name in folders + files:
            path = pathlib.Path(top, name)
            state = path.lstat()
            size = None if name in folders else state.st_size
            found[str(path.relative_to(folder))] = (
                state.st_mode,
                size,
                state.st_ino,
                None if name in folders else state.st_mtime_ns,
            )
    return found


def changes(before, after):
    return sorted({*before, *after} - {name for name in before if before[name] == after.get(name)})
