#!/bin/sh
# Install what the tests need of the system, where that asks no password; else name it, and those tests are skipped.
PATH="$PATH:/usr/sbin"
missing=""
command -v mosquitto >/dev/null || missing="$missing mosquitto"
ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing="$missing libfaketime"
[ -n "$missing" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
if [ "$(id -u)" = 0 ]; then
    sudo=""
else
    sudo="sudo -n"
    $sudo true 2>/dev/null || sudo=false
fi
# shellcheck disable=SC2086
if ! { $sudo apt-get -qq update && $sudo apt-get -qq install --no-install-recommends $missing; } >/dev/null 2>&1; then
    echo "tests that need them will be skipped; please install the packages:$missing" >&2
fi
