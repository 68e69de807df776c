#!/bin/sh
# Print how many days are left until the date that is given.
echo "$(( ($(date -d "$1" +%s) - $(date +%s)) / 86400 ))"
