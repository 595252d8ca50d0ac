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

exec .venv/bin/python -m pytest -m real "$@"
