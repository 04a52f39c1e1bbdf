#!/bin/sh
# Puts an arm into service on the machine where it runs, and takes it back.
# @ABOUT@
#
#   sh FILE adopt [LIBRARY ...]   needs root; libraries: @LIBRARY_WORDS@
#   sh FILE revert                takes everything back, also after a kill
#
# It stops and rolls back at the first instance that does not become well. It refuses a unit that has a drop-in of its
# name, or that sets one of the arm's variables already: on such a host use highwater itself.
set -eu

root=${HIGHWATER_ROOT:-}
state=$root/var/lib/highwater/script-@ID@
journal=$state/journal
drop_in_sha256=@TEXT_SHA256@
health_s=@HEALTH_S@
try_min_s=@TRY_MIN_S@
try_max_s=@TRY_MAX_S@
settle_s=@SETTLE_S@
pause_s=@PAUSE_S@

drop_in() {
cat <<'HIGHWATER_END'
@TEXT@HIGHWATER_END
}

say() { printf '%s\n' "$*"; }
refuse() { printf 'refused, nothing was changed: %s\n' "$*" >&2; exit 4; }
digest() { sha256sum "$1" | cut -d ' ' -f 1; }
note() { printf '%s\n' "$*" >>"$journal"; sync "$journal" 2>/dev/null || sync; }
value() { systemctl show --property "$2" --value -- "$1"; }
# Clock ticks after boot at which a process started: with the pid, its name.
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

units() {
    systemctl list-units --type=service --state=active --plain --no-legend --full -- @PATTERNS@ | awk '{print $1}'
}

# The unit, or its template, that gets the drop-in.
owner() {
@OWNER@
}

# Seconds since boot: nobody sets this clock.
now() { cut -d . -f 1 /proc/uptime; }

# Ends a check that hangs, and all that it started.
within() { # command
    code=0
    timeout -k 1 "$try_s" "$@" </dev/null || code=$?
    case $code in
    124 | 137) why=", its health check did not end within $try_s s and was killed" ;;
    *) why=", its health check ended with $code" ;;
    esac
    return "$code"
}

is_healthy() { # unit, main process
    unit=$1 pid=$2 instance=
    case $unit in *@*) instance=${unit#*@} instance=${instance%.service} ;; esac
@HEALTH@
}

runs_arm() { # main process
@PROOF@
}

is_well() { # unit
    why=
    [ "$(value "$1" ActiveState)" = active ] || return 1
    well_pid=$(value "$1" MainPID)
    [ "$well_pid" -gt 0 ] && runs_arm "$well_pid" && is_healthy "$1" "$well_pid"
}

wait_until_well() { # unit
    end=$(($(now) + health_s))
    while :; do
        try_s=$((end - $(now)))
        [ "$try_s" -ge "$try_min_s" ] || try_s=$try_min_s
        [ "$try_s" -le "$try_max_s" ] || try_s=$try_max_s
        ! is_well "$1" || break
        [ "$(value "$1" ActiveState)" != failed ] && [ "$(now)" -lt "$end" ] || return 1
        sleep 1
    done
    try_s=$try_max_s
}

put() { # from, to, mode
    note "file $2"
    cp -- "$1" "$2.new-highwater"
    chmod "$3" "$2.new-highwater"
    sync "$2.new-highwater" 2>/dev/null || sync
    mv -- "$2.new-highwater" "$2"
}

folder() {
    [ -d "$1" ] && return
    folder "$(dirname "$1")"
    note "folder $1"
    mkdir -m 755 -- "$1"
}

check() {
    [ -n "$root" ] || [ "$(id -u)" = 0 ] || refuse 'only root may write units and restart them'
    command -v systemctl >/dev/null || refuse 'there is no systemctl here'
    command -v timeout >/dev/null || refuse 'there is no timeout (of coreutils or busybox) here'
    [ ! -e "$state" ] || refuse "$state is there: this was begun before; 'sh $0 revert' takes it back"
@TOOL_CHECK@
    all=$(units)
    [ -n "$all" ] || refuse 'no unit that matches' @PATTERNS@ 'runs'
    for unit in $all; do
        file=$root/etc/systemd/system/$(owner "$unit").d/highwater.conf
        [ ! -e "$file" ] && [ ! -L "$file" ] || refuse "$file is there"
        [ "$(value "$unit" MainPID)" -gt 0 ] || refuse "$unit has no main process"
        case " $(value "$unit" Environment | tr '"' ' ')" in
        @VARIABLES@) refuse "$unit sets one of the arm's variables already" ;;
        esac
    done
}

adopt() {
    check
@LIBRARY_CHECK@
    mkdir -p -- "$state"
    : >"$journal"
    trap 'roll_back "stopped by a signal"' INT TERM HUP
    forward || roll_back 'a step failed'
    trap - INT TERM HUP
    say "adopted: arm @ARM@ runs now (instances: $(say "$all" | wc -l)); 'sh $0 revert' takes it back"
}

# Every step says why it failed and ends with a code; set -e does not reach into a condition.
forward() {
@LIBRARY_PUT@
    for unit in $all; do
        pid=$(value "$unit" MainPID)
        note "unit $unit $pid $(started "$pid")" || return 1
    done
    for unit in $all; do
        folder=$root/etc/systemd/system/$(owner "$unit").d
        [ ! -e "$folder/highwater.conf" ] || continue
        drop_in >"$state/drop-in" && folder "$folder" && put "$state/drop-in" "$folder/highwater.conf" 644 || return 1
    done
    systemctl daemon-reload || return 1
    first=yes
    for unit in $all; do
        [ "$first" = yes ] || sleep "$pause_s"
        first=no
        say "restarting $unit"
        systemctl restart -- "$unit" || { say "$unit did not start"; return 1; }
        wait_until_well "$unit" || { say "$unit did not become well within $health_s s$why"; return 1; }
        before=$well_pid
        sleep "$settle_s"
        is_well "$unit" && [ "$well_pid" = "$before" ] || { say "$unit did not stay well$why"; return 1; }
    done
}

roll_back() { # why
    trap '' INT TERM HUP
    say "$1: taking everything back"
    revert || { say "not everything could be taken back: 'sh $0 revert' goes on"; exit 1; }
    exit 1
}

# The last step first. Without a journal nothing was changed: a kill came right after the state's folder was made.
reversed() {
    [ ! -e "$journal" ] || awk '{line[NR] = $0} END {for (n = NR; n > 0; n--) print line[n]}' "$journal"
}

revert() {
    [ -e "$state" ] || refuse 'nothing was adopted by this file here'
    failed=no
    reversed >"$state/back"
    while read -r kind path rest; do
        [ "$kind" = file ] || continue
        rm -f -- "$path.new-highwater"
        case $path in */highwater.conf) wanted=$drop_in_sha256 ;; *) continue ;; esac
        [ -e "$path" ] || continue
        if [ "$(digest "$path")" = "$wanted" ]; then rm -f -- "$path"; else
            say "$path was edited since: it is left as it is"
            failed=yes
        fi
    done <"$state/back"
    while read -r kind path rest; do
        case "$kind $path" in "folder "*/etc/systemd/*) rmdir -- "$path" 2>/dev/null || true ;; esac
    done <"$state/back"
    systemctl daemon-reload || return 1
    while read -r kind unit was; do
        [ "$kind" = unit ] || continue
        pid=$(value "$unit" MainPID)
        [ "$(value "$unit" ActiveState)" != active ] || [ "$pid $(started "$pid")" != "$was" ] || continue
        say "restarting $unit as it was"
        systemctl reset-failed -- "$unit" 2>/dev/null || true
        systemctl restart -- "$unit" || { say "$unit did not start"; failed=yes; }
    done <"$state/back"
    [ "$failed" = no ] || return 1
    while read -r kind path rest; do
        case $kind in
        file) case $path in */highwater.conf) ;; *) rm -f -- "$path" ;; esac ;;
        folder) rmdir -- "$path" 2>/dev/null || true ;;
        esac
    done <"$state/back"
    rm -rf -- "$state"
    say 'everything is as it was'
}

case ${1:-} in
adopt) shift; adopt "$@" ;;
revert) revert ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
