# Sourced by ./test and ./quickstart: installs Debian packages that are missing. `sudo` is used when not root.
#   install_packages PACKAGE...

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "This needs root or sudo: $*" >&2
        return 1
    fi
}

# The PostgreSQL package would make and start a cluster of its own; it is told not to while we install it.
without_a_cluster() {
    local setting=/etc/postgresql-common/createcluster.d/pgstage-quickstart.conf
    if [ -e /usr/lib/postgresql/15/bin/postgres ]; then
        "$@"
        return
    fi
    as_root mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" | as_root tee "$setting" >/dev/null
    local status=0
    "$@" || status=$?
    as_root rm -f "$setting"
    return "$status"
}

# Packages of daemons (pgbouncer) would start them as a service: nothing is started while we install. What an administrator
# has set there stays.
without_services() {
    local policy=/usr/sbin/policy-rc.d
    if [ -e "$policy" ]; then
        "$@"
        return
    fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    local status=0
    "$@" || status=$?
    as_root rm -f "$policy"
    return "$status"
}

install_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        return
    fi
    if ! command -v apt-get >/dev/null; then
        echo "This is not Debian or Ubuntu; please install: ${missing[*]}" >&2
        return 1
    fi
    echo "Installing: ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
           without_services without_a_cluster as_root env DEBIAN_FRONTEND=noninteractive \
               apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

BUILD_PACKAGES=(gcc libc6-dev cmake ninja-build pkg-config libpq-dev libuv1-dev libyaml-dev libjansson-dev
                postgresql-15 postgresql-client-15)
LIBRARY_PACKAGES=(libpoppler-glib-dev libxml2-dev)
PIPELINE_PACKAGES=(poppler-utils tesseract-ocr tesseract-ocr-eng python3 developers-reference)
TEST_PACKAGES=(libcriterion-dev pgbouncer python3 jq mandoc)

# What the quickstart reads when it is given no folder: a manual in HTML, and papers in PDF and plain text.
DOCUMENT_PACKAGES=(postgresql-doc-15 libtasn1-doc shared-mime-info developers-reference)
DOCUMENT_MANUAL=/usr/share/doc/postgresql-doc-15/html
DOCUMENT_FILES=(/usr/share/doc/libtasn1-doc/libtasn1.pdf /usr/share/doc/shared-mime-info/shared-mime-info-spec.pdf
                /usr/share/developers-reference/developers-reference.pdf
                /usr/share/developers-reference/_sources/*.rst.txt /usr/share/doc/dpkg/spec/*.txt)
