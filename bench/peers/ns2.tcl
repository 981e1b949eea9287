# Benchmark scenarios S1, S1c, S2 and S3 (see ../README.md) on stock ns-2, one JSON line on stdout:
#   ns ns2.tcl -scenario S1 -flows FILE -simulated SECONDS [-buffer PACKETS] [-count-exactly 1]
#
# ns-2.35 has no DCTCP, so S1, S2 and S3 run SACK TCP with ECN (RFC 3168: one halving per marked round) on the same
# marking threshold. S1c runs the Linux CUBIC which ns-2 carries (Agent/TCP/Linux), whose clock is a 1 ms jiffy. Its
# senders delay each packet by a random time below 10 us: without, arrivals lock to the departures of the full queue
# (the phase effects of Floyd and Jacobson, 1991) and one of the two flows loses every packet it sends.
#
# Packet-hops are computed, not counted, since ns-2 counts only with trace objects in the path of every packet: each
# packet acknowledged in order crossed its path and its ACK crossed the way back. What is in flight at the end and
# retransmissions are left out (a lower bound). -count-exactly puts a queue monitor on every link, to check the sum.

set payload_bytes 1460
set line_rate_bps 10e9
set max_goodput_bps [expr {$line_rate_bps * 1460 / 1500}]

array set option {-scenario S1 -flows "" -simulated 0.1 -buffer 100 -count-exactly 0}
foreach {key value} $argv {
    if {![info exists option($key)]} {
        puts stderr "ns2.tcl: unknown option $key; one of: [lsort [array names option]]"
        exit 2
    }
    set option($key) $value
}
set scenario $option(-scenario)
set simulated $option(-simulated)
set cubic [expr {$scenario eq "S1c"}]
set dumbbell [expr {$cubic || $scenario eq "S1"}]

# Returns rows {start_s src dst bytes}.
proc read_flows {file} {
    set in [open $file]
    set unit [expr {[string match "start_ps,*" [gets $in]] ? 1e-12 : 1.0}]
    set flows {}
    while {[gets $in line] >= 0} {
        lassign [split $line ,] start src dst bytes
        lappend flows [list [expr {$start * $unit}] $src $dst $bytes]
    }
    close $in
    return $flows
}

# Links as {a b a b ...}; hosts are numbered first. The first link of a dumbbell joins the two switches.
proc dumbbell_links {pairs} {
    set hosts [expr {2 * $pairs}]
    set links [list $hosts [expr {$hosts + 1}]]
    for {set host 0} {$host < $hosts} {incr host} {
        lappend links $host [expr {$host < $pairs ? $hosts : $hosts + 1}]
    }
    return $links
}

# Al-Fares fat-tree of k-port switches: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores.
proc fat_tree_links {k} {
    set half [expr {$k / 2}]
    set hosts [expr {$k * $half * $half}]
    set aggregations [expr {$hosts + $k * $half}]
    set cores [expr {$aggregations + $k * $half}]
    set links {}
    for {set host 0} {$host < $hosts} {incr host} {
        lappend links $host [expr {$hosts + $host / $half}]
    }
    for {set pod 0} {$pod < $k} {incr pod} {
        for {set a 0} {$a < $half} {incr a} {
            set aggregation [expr {$aggregations + $pod * $half + $a}]
            for {set i 0} {$i < $half} {incr i} {
                lappend links [expr {$hosts + $pod * $half + $i}] $aggregation
                lappend links $aggregation [expr {$cores + $a * $half + $i}]
            }
        }
    }
    return $links
}

proc configure_tcp {cubic} {
    Agent/TCP set packetSize_ $::payload_bytes
    Agent/TCP set windowInit_ 10
    Agent/TCP set window_ 3000 ;# 4 MB
    Agent/TCP set minrto_ 0.25
    Agent/TCP set tcpTick_ 0.000001
    Agent/TCP set rtxcur_init_ 1.0
    Agent/TCP set timestamps_ false
    Agent/TCP set ecn_ [expr {!$cubic}]
    Agent/TCPSink set ecn_syn_ false
}

proc configure_queues {cubic buffer} {
    if {$cubic} {
        Queue/DropTail set limit_ $buffer
        return DropTail
    }
    # RED on the instantaneous length with both thresholds at 65 packets. Above maxthresh_ RED drops, unless
    # use_mark_p_ is set and the marking probability (1 here) is below mark_p_: the setting of the DCTCP scripts.
    Queue/RED set limit_ 1000
    Queue/RED set bytes_ false
    Queue/RED set queue_in_bytes_ false
    Queue/RED set mean_pktsize_ 1500
    Queue/RED set q_weight_ 1.0
    Queue/RED set thresh_ 65
    Queue/RED set maxthresh_ 65
    Queue/RED set gentle_ false
    Queue/RED set wait_ false
    Queue/RED set setbit_ true
    Queue/RED set use_mark_p_ true
    Queue/RED set mark_p_ 2.0
    Queue/RED set drop_tail_ true
    return RED
}

# Fills neighbors(node), and switch(node) with the classifier which forwards by (source, destination, flow).
proc build {hosts links queue delay} {
    global ns node neighbors switch slot monitors option distances
    set count [expr {[tcl::mathfunc::max {*}$links] + 1}]
    for {set i 0} {$i < $count} {incr i} {
        set node($i) [$ns node]
        if {$i >= $hosts} {
            set switch($i) [new Classifier/Hash/SrcDestFid 4096]
            $node($i) set classifier_ $switch($i)
        }
    }
    set monitors {}
    foreach {a b} $links {
        $ns duplex-link $node($a) $node($b) $::line_rate_bps $delay $queue
        lappend neighbors($a) $b
        lappend neighbors($b) $a
        if {$option(-count-exactly)} {
            lappend monitors [$ns monitor-queue $node($a) $node($b) ""] [$ns monitor-queue $node($b) $node($a) ""]
        }
    }
    foreach {a b} $links {
        install_port $a $b
        install_port $b $a
    }
    for {set host 0} {$host < $hosts} {incr host} {
        set distances($host) [distances_to $host]
    }
}

proc install_port {from to} {
    global ns node switch slot
    set head [[$ns link $node($from) $node($to)] head]
    if {![info exists switch($from)]} {
        $node($from) add-route default $head
        [$node($from) entry] defaulttarget $head
        return
    }
    set slot($from,$to) [array size slot]
    $switch($from) install $slot($from,$to) $head
}

# Distance of every node to a host, as a dictionary.
proc distances_to {host} {
    global neighbors
    set distance [dict create $host 0]
    set frontier [list $host]
    for {set i 0} {$i < [llength $frontier]} {incr i} {
        set at [lindex $frontier $i]
        foreach peer $neighbors($at) {
            if {![dict exists $distance $peer]} {
                dict set distance $peer [expr {[dict get $distance $at] + 1}]
                lappend frontier $peer
            }
        }
    }
    return $distance
}

# Pins a flow's packets from src to dst to one shortest path drawn at random (per-flow ECMP). Returns its hops.
proc pin_path {flow src dst} {
    global neighbors switch slot node distances
    set distance $distances($dst)
    set hops [dict get $distance $src]
    set at $src
    for {set left $hops} {$left > 0} {incr left -1} {
        set closer {}
        foreach peer $neighbors($at) {
            if {[dict get $distance $peer] < $left} {
                lappend closer $peer
            }
        }
        set next [lindex $closer [expr {int(rand() * [llength $closer])}]]
        if {[info exists switch($at)]} {
            $switch($at) set-hash auto [$node($src) id] [$node($dst) id] $flow $slot($at,$next)
        }
        set at $next
    }
    return $hops
}

# Creating two agents takes ns-2 2.5 ms of binding variables, so it is done before the clock of the run starts.
proc create_flow {flow start src dst bytes} {
    global ns node senders hops payload_bytes cubic
    set hops($flow) [pin_path $flow $src $dst]
    pin_path $flow $dst $src
    set tcp [new Agent/TCP/[expr {$cubic ? "Linux" : "Sack1"}]]
    set sink [new Agent/TCPSink/Sack1]
    $tcp set fid_ $flow
    $sink set fid_ $flow
    $ns attach-agent $node($src) $tcp
    $ns attach-agent $node($dst) $sink
    $ns connect $tcp $sink
    if {$cubic} {
        $tcp select_ca cubic
        $tcp set overhead_ 1e-5
    }
    set senders($flow) $tcp
    if {$bytes == 0} {
        $ns at $start [list $tcp send -1]
    } else {
        $ns at $start [list $tcp advance [expr {($bytes + $payload_bytes - 1) / $payload_bytes}]]
    }
}

# Mean queue of the first link: RED keeps its length in curq_; of drop-tail a monitor knows the integral.
proc watch_bottleneck {from} {
    global ns node cubic bottleneck integral_at_start
    if {$cubic} {
        set bottleneck [$ns monitor-queue $node(4) $node(5) ""]
        set integral [new Integrator]
        $bottleneck set-pkts-integrator $integral
        $ns at $from {
            set integrator [$bottleneck get-pkts-integrator]
            $integrator newpoint [$ns now] [$integrator set lasty_]
            set integral_at_start [$integrator set sum_]
        }
        return
    }
    set bottleneck [[$ns link $node(16) $node(17)] queue]
    $ns at $from sample_bottleneck
}

proc sample_bottleneck {} {
    global ns bottleneck samples sample_sum
    incr samples
    set sample_sum [expr {$sample_sum + [$bottleneck set curq_]}]
    $ns at [expr {[$ns now] + 2e-5}] sample_bottleneck
}

proc mean_queue {from} {
    global ns cubic bottleneck integral_at_start samples sample_sum
    if {!$cubic} {
        return [expr {double($sample_sum) / max(1, $samples)}]
    }
    set integrator [$bottleneck get-pkts-integrator]
    $integrator newpoint [$ns now] [$integrator set lasty_]
    return [expr {([$integrator set sum_] - $integral_at_start) / ([$ns now] - $from)}]
}

# User and system seconds of this process (clock ticks of 10 ms).
proc cpu_seconds {} {
    set in [open /proc/self/stat]
    set fields [lrange [lindex [split [read $in] )] end] 11 12]
    close $in
    return [list [expr {[lindex $fields 0] / 100.0}] [expr {[lindex $fields 1] / 100.0}]]
}

proc peak_rss_mb {} {
    set in [open /proc/self/status]
    regexp {VmHWM:\s+(\d+) kB} [read $in] -> kilobytes
    close $in
    return [expr {$kilobytes / 1024.0}]
}

proc report {flows watch_from setup_s} {
    global senders hops scenario simulated cubic dumbbell max_goodput_bps payload_bytes option host_count monitors
    lassign [cpu_seconds] user_s sys_s
    set packet_hops 0
    set delivered 0
    set retransmissions 0
    set squares 0
    foreach flow [array names senders] {
        # ack_ is the last packet acknowledged in order: 0 the SYN, from 1 on data, -1 none yet.
        set ack [$senders($flow) set ack_]
        set packets [expr {max(0, $ack)}]
        incr delivered $packets
        incr packet_hops [expr {2 * ($ack + 1) * $hops($flow)}]
        incr retransmissions [$senders($flow) set nrexmitpack_]
        set squares [expr {$squares + double($packets) * $packets}]
    }
    set sharers [expr {$dumbbell ? 1 : $host_count}]
    set goodput [expr {$delivered * $payload_bytes * 8.0 / ($max_goodput_bps * $sharers * $simulated)}]
    set json "\"scenario\":\"$scenario\",\"system\":\"ns-2\",\"version\":\"[ns-version]\""
    append json ",\"transport\":\"[expr {$cubic ? "cubic" : "sack+ecn"}]\",\"simulated_s\":$simulated"
    append json ",\"packet_hops\":$packet_hops,\"delivered\":$delivered,\"goodput_fraction\":$goodput"
    if {$scenario ne "S3"} {
        append json ",\"jain\":[expr {double($delivered) * $delivered / ([array size senders] * $squares)}]"
    }
    if {$dumbbell} {
        append json ",\"mean_queue_packets\":[mean_queue $watch_from]"
    }
    if {$cubic} {
        append json ",\"buffer_packets\":$option(-buffer)"
    }
    append json ",\"retransmissions\":$retransmissions"
    if {$option(-count-exactly)} {
        set counted 0
        foreach monitor $monitors {
            set counted [expr {$counted + [$monitor set pdepartures_]}]
        }
        append json ",\"counted_hops\":$counted"
    }
    append json ",\"setup_s\":$setup_s,\"user_s\":$user_s,\"sys_s\":$sys_s"
    append json ",\"hops_per_cpu_s\":[expr {int($packet_hops / max(0.01, $user_s + $sys_s - $setup_s))}],\"peak_rss_mb\":[peak_rss_mb]"
    puts "{$json}"
    exit 0
}

expr {srand(1)}
set samples 0
set sample_sum 0
set flows [read_flows $option(-flows)]
# The fastest setting of each: packets without the fifty headers nobody reads, and the best of the four schedulers.
remove-all-packet-headers
add-packet-header IP TCP Flags
set ns [new Simulator]
$ns use-scheduler [expr {$dumbbell ? "Splay" : "Calendar"}]
$ns rtproto Manual
configure_tcp $cubic
set queue [configure_queues $cubic $option(-buffer)]
set host_count [expr {$cubic ? 4 : $dumbbell ? 16 : 128}]
set links [expr {$dumbbell ? [dumbbell_links [expr {$host_count / 2}]] : [fat_tree_links 8]}]
build $host_count $links $queue [expr {$dumbbell ? 5e-6 : 1e-6}]
set flow 0
foreach row $flows {
    lassign $row start src dst bytes
    if {$start < $simulated} {
        create_flow $flow $start $src $dst $bytes
    }
    incr flow
}
set watch_from [expr {min(0.1, $simulated / 2)}]
if {$dumbbell} {
    watch_bottleneck $watch_from
}
set setup_s [expr [join [cpu_seconds] +]]
$ns at $simulated {report $flows $watch_from $setup_s}
$ns run
