#!/bin/sh
# Lets memcached stand in for the server under test: TANDEM_BIN=tests/conformance/memcached_as_tandem.sh
if [ "$1" = memcached ]; then shift; fi
exec "${MEMCACHED_BIN:-memcached}" "$@"
