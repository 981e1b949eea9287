#!/usr/bin/env bash
# Runs the benchmark scenarios on the peer simulators, one JSON line per run on stdout (schema: ../README.md).
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: run.sh [OPTION]... [SCENARIO]...
SCENARIO: S1 S1c S1q S2 S3 S1-dwrr S2-dwrr S3-dwrr (default: S1 S1c S2 S3)
  --peer NAME          ns-3 or ns-2; may be repeated (default: both)
  --simulated SECONDS  simulated time (default: short for ns-3, full length for ns-2)
  --full               full length for both: 1 s on dumbbells, 0.1 s on fat-trees
  --flows FILE         flow list to use instead of flows.py's; with exactly one SCENARIO
  --buffer PACKETS     drop-tail queue of S1c (default: 100)
  --seed N             seed of flows.py (default: 1)
USAGE
}

here=$(cd "$(dirname "$0")" && pwd)
build="$here/../../target/peers"
peers=()
scenarios=()
simulated=
full=
flows=
buffer=100
seed=1

refuse() {
    echo "run.sh: $1" >&2
    exit 2
}

while (($#)); do
    case $1 in
        --peer | --simulated | --flows | --buffer | --seed)
            (($# >= 2)) || refuse "$1 needs a value"
            case $1 in
                --peer) peers+=("$2") ;;
                --simulated) simulated=$2 ;;
                --flows) flows=$2 ;;
                --buffer) buffer=$2 ;;
                --seed) seed=$2 ;;
            esac
            shift 2
            ;;
        --full) full=1 && shift ;;
        -h | --help) usage && exit 0 ;;
        S1 | S1c | S1q | S2 | S3 | S[123]-dwrr) scenarios+=("$1") && shift ;;
        *) refuse "unknown argument $1; see --help" ;;
    esac
done
((${#peers[@]})) || peers=(ns-3 ns-2)
((${#scenarios[@]})) || scenarios=(S1 S1c S2 S3)
[[ -z $flows || ${#scenarios[@]} == 1 ]] || refuse "--flows needs exactly one scenario"
mkdir -p "$build"

# Makes sure that a Debian package is there; the second argument is a test that it is.
ensure_package() {
    eval "$2" && return
    echo "run.sh: installing Debian package $1" >&2
    apt-get install -y "$1" >"$build/apt-$1.log" 2>&1 && eval "$2"
}

build_ns3() {
    ensure_package libns3-dev "pkg-config --exists ns3-core" || return
    [[ $build/ns3 -nt $here/ns3.cc ]] && return
    # The libraries are spelled out: the flags of Debian's .pc files contain a stray -I and stale paths.
    g++ -O2 -std=c++17 -DNS3_VERSION="\"$(pkg-config --modversion ns3-core)\"" "$here/ns3.cc" -o "$build/ns3" \
        -lns3-applications -lns3-internet -lns3-point-to-point -lns3-traffic-control -lns3-network -lns3-core \
        >"$build/ns3.log" 2>&1
}

prepare() {
    case $1 in
        ns-3) build_ns3 ;;
        ns-2) ensure_package ns2 "command -v ns >/dev/null" ;;
        *) refuse "unknown peer $1; one of: ns-3 ns-2" ;;
    esac
}

unavailable() {
    printf '{"scenario":"%s","system":"%s","unavailable":"%s"}\n' "$1" "$2" "$3"
}

full_length() {
    [[ $1 == S1* ]] && echo 1 || echo 0.1
}

# ns-3 takes minutes for the full length of any scenario but S1c; its hop rate settles long before.
length() {
    if [[ -n $simulated ]]; then
        echo "$simulated"
    elif [[ -n $full || $2 == ns-2 || $1 == S1c ]]; then
        full_length "$1"
    elif [[ $1 == S1 ]]; then
        echo 0.2
    elif [[ $1 == S2 ]]; then
        echo 0.004
    else
        echo 0.01
    fi
}

run() {
    local scenario=$1 peer=$2 seconds list
    if [[ $scenario == S1q ]]; then
        unavailable "$scenario" "$peer" "cross-queue congestion notification: not available in $peer"
        return
    fi
    if [[ $scenario == *-dwrr ]]; then
        unavailable "$scenario" "$peer" "two-class DWRR: not available in $peer"
        return
    fi
    seconds=$(length "$scenario" "$peer")
    list=$flows
    if [[ -z $list ]]; then
        list=$build/$scenario.csv
        python3 "$here/flows.py" "$scenario" --simulated "$seconds" --seed "$seed" >"$list"
    fi
    case $peer in
        ns-3) "$build/ns3" --scenario="$scenario" --flows="$list" --simulated="$seconds" --buffer="$buffer" ;;
        # Agent/TCP/Linux greets on stdout; results are the lines of JSON.
        ns-2) ns "$here/ns2.tcl" -scenario "$scenario" -flows "$list" -simulated "$seconds" -buffer "$buffer" |
            grep '^{' ;;
    esac
}

for peer in "${peers[@]}"; do
    if ! prepare "$peer"; then
        echo "run.sh: $peer skipped: it is not installed and could not be (logs in target/peers)" >&2
        continue
    fi
    for scenario in "${scenarios[@]}"; do
        run "$scenario" "$peer" || unavailable "$scenario" "$peer" "the run failed"
    done
done
