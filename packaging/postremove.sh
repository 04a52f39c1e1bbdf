#!/bin/sh
set -e
# The unpacked probe stays while the package is upgraded: programs that run have it mapped. dpkg says "remove" or
# "purge", rpm and apk how many versions are left.
case "${1:-remove}" in
    remove | purge | 0) rm -rf /var/cache/highwater ;;
esac
