#!/bin/sh
# Installs remaster @VERSION@ for this user: fetches the archive for this system, checks its SHA-256 and puts the program into
# ~/.local/bin.
#
#   REMASTER_INSTALL_DIR   another folder for the program
#   REMASTER_STATIC=1      the static program without GPU support, for systems without glibc
#   REMASTER_BASE_URL      another place of the archives
set -eu

# All of it, so that a script that was cut off while it came through a pipe does nothing.
main() {
  version="@VERSION@"
  sums="@SUMS@"
  base="${REMASTER_BASE_URL:-https://github.com/remaster-video/remaster/releases/download/v$version}"
  folder="${REMASTER_INSTALL_DIR:-$HOME/.local/bin}"

  fail() {
    echo "error: $*" >&2
    exit 1
  }

  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64 | Linux-amd64) system=linux-x86-64 ;;
    Linux-aarch64 | Linux-arm64) system=linux-aarch64 ;;
    Darwin-arm64) system=macos-aarch64 ;;
    Darwin-x86_64) system=macos-x86-64 ;;
    *) fail "there is no program for $(uname -s) on $(uname -m); build it from source: $base" ;;
  esac
  # Only glibc's own ldd names it; musl's fails.
  if [ -n "${REMASTER_STATIC:-}" ] || { [ "${system%%-*}" = linux ] && ldd --version 2>&1 | grep -qi musl; }; then
    [ $system = linux-x86-64 ] || fail "the static program is there for x86-64 only"
    system=linux-x86-64-static
  fi

  name="remaster-$version-$system"
  wanted="$(printf '%s\n' "$sums" | sed -n "s/  $name.tar.gz\$//p")"
  [ -n "$wanted" ] || fail "this installer knows no hash of $name.tar.gz; fetch a newer one"

  temporary="$(mktemp -d)"
  trap 'rm -rf "$temporary"' EXIT
  trap 'exit 1' HUP INT TERM
  archive="$temporary/$name.tar.gz"
  if command -v curl >/dev/null; then
    curl --fail --location --silent --show-error --output "$archive" "$base/$name.tar.gz" || fail "cannot fetch $base/$name.tar.gz"
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
  mkdir -p "$folder"
  # Renamed into its place: a program that runs is not written to.
  cp "$temporary/$name/remaster" "$folder/.remaster.new"
  chmod 755 "$folder/.remaster.new"
  mv "$folder/.remaster.new" "$folder/remaster"
  "$folder/remaster" --version
  echo "installed $folder/remaster"
  case ":$PATH:" in
    *":$folder:"*) ;;
    *) echo "add $folder to PATH to run it as \`remaster\`" ;;
  esac
}

main
