#!/usr/bin/env bash
# Run the tests marked `real`, and first install the Debian packages that they talk to.
# Where nothing can be installed, the tests of a missing service fail: an untested claim must not look green.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(chromium)

missing=()
for package in "${packages[@]}"; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if ((${#missing[@]})) && command -v apt-get >/dev/null && ((EUID == 0)); then
    echo "== installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# A server that speaks S3, in an environment of its own: it would bring 40 packages into the project's.
moto=.venv/moto
if [[ ! -x $moto/bin/moto_server ]]; then
    echo "== installing moto"
    .venv/bin/python -m venv "$moto"
    "$moto/bin/python" -m pip install --quiet --disable-pip-version-check 'moto[s3]==5.2.5' flask==3.1.3 flask-cors==6.0.5
fi

exec .venv/bin/python -m pytest -m real "$@"
