#!/usr/bin/env bash
# A Docker engine for these tests on a machine that has none running and can pull no image. On Debian, as root:
#
#   apt-get install docker.io docker-compose debootstrap iptables iproute2
#   eval "$(tests/compose/engine.sh start /tmp/engine)"
#   .venv/bin/python -m pytest tests/compose
#   tests/compose/engine.sh stop /tmp/engine
#
# It has a data root and a socket of its own in that folder. The image that the Dockerfile begins with is made
# by debootstrap: Debian's Python of the same minor version, with the certificates that this machine trusts, so
# that a build reaches packages by the same way as the machine does.
set -euo pipefail
verb=${1:?start or stop} folder=$(realpath -m "${2:?a folder}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
base=$(sed -n 's/^ARG PYTHON=//p' "$here/Dockerfile")
export DOCKER_HOST=unix://$folder/docker.sock
trusted=/etc/ssl/certs/ca-certificates.crt

start() {
  mkdir -p "$folder"
  if ! docker version >/dev/null 2>&1; then
    dockerd --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/pid" \
      --host "$DOCKER_HOST" >"$folder/log" 2>&1 </dev/null &
    disown
    for _ in $(seq 120); do
      docker version >/dev/null 2>&1 && break
      kill -0 $! 2>/dev/null || { tail -5 "$folder/log" >&2; exit 1; }
      sleep 0.5
    done
    docker version >/dev/null
    # The engine forbids all forwarding but its own; other networks of this machine go on as they did.
    iptables --policy FORWARD ACCEPT
  fi
  if ! docker image inspect "$base" >/dev/null 2>&1; then
    rm -rf "$folder/root"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
      bookworm "$folder/root" >"$folder/debootstrap.log" 2>&1
    cp "$trusted" "$folder/root$trusted"
    tar --directory "$folder/root" --create . \
      | docker import --change "ENV SSL_CERT_FILE=$trusted PIP_CERT=$trusted" - "$base" >/dev/null
    rm -rf "$folder/root"
  fi
  echo "export DOCKER_HOST=$DOCKER_HOST"
}

stop() {
  [ -e "$folder/pid" ] || return 0
  local pid
  pid=$(cat "$folder/pid")
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 60); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.5
  done
}

case $verb in
  start) start ;;
  stop) stop ;;
  *) echo "start or stop, not $verb" >&2 && exit 2 ;;
esac
