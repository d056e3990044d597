#!/bin/sh
# Installs remaster @VERSION@ for this user: fetches the archive for this system, checks its SHA-256, starts the program once and
# puts it into ~/.local/bin.
#
#   REMASTER_INSTALL_DIR   another folder for the program
#   REMASTER_STATIC=1      the static program without GPU support, for systems without glibc
#   REMASTER_BASE_URL      another place of the archives
set -eu

# All of it, so that a script that was cut off while it came through a pipe does nothing.
main() {
  version="@VERSION@"
  sums="@SUMS@"
  home="https://github.com/remaster-video/remaster"
  base="${REMASTER_BASE_URL:-$home/releases/download/v$version}"
  folder="${REMASTER_INSTALL_DIR:-${HOME:+$HOME/.local/bin}}"

  fail() {
    echo "error: $*" >&2
    exit 1
  }

  [ -n "$folder" ] || fail "HOME is not set; name a folder for the program in REMASTER_INSTALL_DIR"
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64 | Linux-amd64) system=linux-x86-64 ;;
    Linux-aarch64 | Linux-arm64) system=linux-aarch64 ;;
    Darwin-arm64) system=macos-aarch64 ;;
    Darwin-x86_64) system=macos-x86-64 ;;
    *) fail "there is no program for $(uname -s) on $(uname -m); build it from source: $home#from-source" ;;
  esac
  # A shell that Rosetta translates takes the machine for an Intel one.
  if [ $system = macos-x86-64 ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null)" = 1 ]; then
    system=macos-aarch64
  fi
  # The kernel may have 64 bits and all else 32.
  [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 64 ] || fail "this system has programs of 32 bits; remaster needs 64"
  # Only glibc's own ldd names it; musl's fails.
  if [ -n "${REMASTER_STATIC:-}" ] || { [ "${system%%-*}" = linux ] && ldd --version 2>&1 | grep -qi musl; }; then
    [ $system = linux-x86-64 ] || fail "the static program is there for x86-64 only"
    system=linux-x86-64-static
  fi

  mkdir -p -- "$folder"
  folder="$(CDPATH='' cd -- "$folder" && pwd)"
  [ ! -d "$folder/remaster" ] || fail "$folder/remaster is a folder; name another place for the program in REMASTER_INSTALL_DIR"
  temporary="$(mktemp -d)"
  trap 'rm -rf "$temporary" "$folder/.remaster.new"' EXIT
  trap 'exit 1' HUP INT TERM

  fetch
  # It is started before it replaces anything: an old C library, or a system without one, shows here.
  if ! said="$("$folder/.remaster.new" --version 2>&1)"; then
    [ $system = linux-x86-64 ] || fail "the program does not start here, and nothing was installed: $said"
    echo "the program with GPU support does not start here ($said); installing the static one" >&2
    system=linux-x86-64-static
    fetch
    said="$("$folder/.remaster.new" --version 2>&1)" || fail "the program does not start here, and nothing was installed: $said"
  fi
  # Renamed into its place: a program that runs is not written to.
  mv "$folder/.remaster.new" "$folder/remaster"
  echo "installed $said: $folder/remaster"
  case ":$PATH:" in
    *":$folder:"*) ;;
    *) echo "to run it as \`remaster\`, add it to PATH: export PATH=\"$folder:\$PATH\"" ;;
  esac
}

# Puts the program of $system beside its place, if the archive has the hash that this installer knows.
fetch() {
  name="remaster-$version-$system"
  wanted="$(printf '%s\n' "$sums" | sed -n "s/  $name.tar.gz\$//p")"
  [ -n "$wanted" ] || fail "this installer knows no hash of $name.tar.gz; fetch a newer one"
  archive="$temporary/$name.tar.gz"
  if command -v curl >/dev/null; then
    # Whoever names another place says how to reach it.
    secure="--proto =https --tlsv1.2"
    [ -z "${REMASTER_BASE_URL:-}" ] || secure=""
    # shellcheck disable=SC2086 # a list of words
    curl $secure --fail --location --silent --show-error --retry 3 --output "$archive" "$base/$name.tar.gz" ||
      fail "cannot fetch $base/$name.tar.gz"
  elif command -v wget >/dev/null; then
    wget --quiet --output-document "$archive" "$base/$name.tar.gz" || fail "cannot fetch $base/$name.tar.gz"
  else
    fail "curl or wget is needed"
  fi

  if command -v sha256sum >/dev/null; then
    found="$(sha256sum "$archive" | cut -d ' ' -f 1)"
  elif command -v shasum >/dev/null; then
    found="$(shasum -a 256 "$archive" | cut -d ' ' -f 1)"
  else
    fail "sha256sum or shasum is needed"
  fi
  [ "$found" = "$wanted" ] || fail "the archive has the hash $found and not $wanted; nothing was installed"

  tar -xzf "$archive" -C "$temporary"
  cp "$temporary/$name/remaster" "$folder/.remaster.new"
  chmod 755 "$folder/.remaster.new"
}

main
