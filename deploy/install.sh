#!/bin/sh
# Installs one part of Sluice into a prefix of its own: deploy/install.sh service|dagster|spark
#
#   SLUICE_PREFIX   where to: /opt/sluice
#   SLUICE_SOURCE   a checkout, or a folder that has the wheel of sluice-cdc: the folder above this one
#   SLUICE_EXTRAS   more extras, commas between them: kafka,rocketmq
#   SLUICE_S3       spark: 1 adds the jars for s3a:// lakes (60 MB)
#   SLUICE_KERNELS  1 compiles the kernels now, for any x86-64-v3 processor, and not at the first start
#   PYTHON          which Python, 3.11 or later: python3.11, else python3
#
# As root on Debian it also installs the system's packages that are missing; otherwise it names them.
set -eu

part=${1:-}
here=$(cd "$(dirname "$0")" && pwd)
source=${SLUICE_SOURCE:-$(dirname "$here")}
prefix=${SLUICE_PREFIX:-/opt/sluice}
extras=${SLUICE_EXTRAS:-}
python=${PYTHON:-$(command -v python3.11 || command -v python3 || true)}

say() { echo "install: $*"; }
fail() { echo "install: $*" >&2; exit 1; }

need() { # PACKAGE...: installs packages of Debian
  [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] || fail "missing: $*. Run: sudo apt-get install -y $*"
  say "installing $*"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@"; } >/dev/null
}

case $part in
  service) ;;
  dagster) extras="dagster${extras:+,$extras}" ;;
  spark) extras="spark${extras:+,$extras}" ;;
  *) fail "usage: $0 service|dagster|spark" ;;
esac

# 1. What the system must have
if [ -z "$python" ]; then need python3 python3-venv; python=$(command -v python3); fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is older than 3.11"
"$python" -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
if [ "$part" = spark ] && ! command -v java >/dev/null; then need openjdk-17-jre-headless; fi

# 2. The packages, in the versions that the tests run with
say "$part into $prefix"
[ -x "$prefix/bin/python" ] || "$python" -m venv "$prefix"
wheel=$(find "$source" -maxdepth 1 -name 'sluice_cdc-*.whl' | sort | tail -n 1)
if [ -z "$wheel" ] && [ ! -f "$source/pyproject.toml" ]; then fail "$source has neither a wheel nor a checkout"; fi
constraints=$(dirname "$here")/constraints.txt
PIP_CONSTRAINT="$constraints" SLUICE_KERNELS="${SLUICE_KERNELS:-}" "$prefix/bin/python" -m pip install -q \
  --disable-pip-version-check -c "$constraints" \
  "sluice-cdc${extras:+[$extras]} @ file://${wheel:-$source}"

# 3. What is not a package: the programs that start the parts, and their settings
mkdir -p "$prefix/etc"
install -m 755 "$here/bin/sluice-$part" "$prefix/bin/sluice-$part"
[ "$part" != service ] || install -m 755 "$here/bin/sluice-monitor" "$prefix/bin/sluice-monitor"
if [ "$part" = spark ]; then
  say "fetching the jars of Delta"
  [ "${SLUICE_S3:-}" = 1 ] && s3=--s3 || s3=
  "$prefix/bin/python" "$here/jars.py" "$prefix/jars" $s3
  sed "s|@PREFIX@|$prefix|g" "$here/spark-defaults.conf" >"$prefix/etc/spark-defaults.conf"
fi

# 4. It must at least start
"$prefix/bin/sluice" --version >/dev/null || fail "the command does not start"
say "done"
