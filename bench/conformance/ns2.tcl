# One case of the conformance table on stock ns-2: a dumbbell, its queue and a list of flows; one JSON line on stdout.
#   ns ns2.tcl -flows FILE -seconds S -queue RED -limit PACKETS ... [CLASS VARIABLE VALUE]...
# What follows the options are settings of ns-2's classes as `CLASS set VARIABLE VALUE`, such as `Queue/RED thresh_ 5`.
#
# Each flow has an agent of its own, of the class that `-agent` names. Windows and sequence numbers are in packets.

array set option {
    -flows "" -seconds 1 -seed 1 -hosts 4 -edgeMbit 100 -edgeUs 100 -coreMbit 10 -coreUs 10000
    -queue DropTail -limit 100 -agent Sack1 -sink Sack1 -mss 1460 -sampleFrom 0 -sampleUs 1000
}
set rest {}
for {set at 0} {$at < [llength $argv]} {incr at} {
    set key [lindex $argv $at]
    if {![info exists option($key)]} {
        set rest [lrange $argv $at end]
        break
    }
    set option($key) [lindex $argv [incr at]]
}

remove-all-packet-headers
add-packet-header IP TCP Flags
ns-random $option(-seed)
set ns [new Simulator]
Agent/TCP set packetSize_ $option(-mss)
Agent/TCP set window_ 100000
Agent/TCP set tcpTick_ 0.000001
Agent/TCP set timestamps_ false
Agent/TCP set rtxcur_init_ 1.0
foreach {class variable value} $rest {
    $class set $variable $value
}

set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right $option(-coreMbit)Mb $option(-coreUs)us $option(-queue)
$ns queue-limit $left $right $option(-limit)
$ns queue-limit $right $left $option(-limit)
for {set host 0} {$host < $option(-hosts)} {incr host} {
    set node($host) [$ns node]
    set near [expr {$host < $option(-hosts) / 2 ? $left : $right}]
    $ns duplex-link $node($host) $near $option(-edgeMbit)Mb $option(-edgeUs)us DropTail
    $ns queue-limit $node($host) $near 100000
    $ns queue-limit $near $node($host) 100000
}
set monitor [$ns monitor-queue $left $right ""]

set in [open $option(-flows)]
gets $in
set count 0
while {[gets $in line] >= 0} {
    lassign [split $line ,] start source destination bytes class
    set sender($count) [new Agent/TCP/$option(-agent)]
    set sink [new Agent/TCPSink[expr {$option(-sink) eq "" ? "" : "/$option(-sink)"}]]
    $sender($count) set fid_ $count
    $sink set fid_ $count
    $ns attach-agent $node($source) $sender($count)
    $ns attach-agent $node($destination) $sink
    $ns connect $sender($count) $sink
    $ns at $start [list $sender($count) send -1]
    incr count
}
close $in

# What `pkts_` of the monitor holds: the packet on the wire has left it.
set samples 0
set packets 0
proc sample {} {
    global ns monitor option samples packets
    incr samples
    incr packets [expr {int([$monitor set pkts_])}]
    $ns at [expr {[$ns now] + $option(-sampleUs) * 1e-6}] sample
}
$ns at $option(-sampleFrom) sample

proc report {} {
    global monitor option sender count samples packets
    set flows {}
    for {set flow 0} {$flow < $count} {incr flow} {
        # The last packet acknowledged in order; packet 0 is the request for the connection.
        set delivered [expr {max(0, int([$sender($flow) set ack_])) * $option(-mss)}]
        lappend flows "{\"delivered\":$delivered,\"fct_us\":null,\"retransmitted\":[expr {int([$sender($flow) set nrexmitpack_])}],\"timeouts\":[expr {int([$sender($flow) set nrexmit_])}]}"
    }
    set mean [expr {double($packets) / max(1, $samples)}]
    puts "{\"queue_packets\":$mean,\"forwarded\":[expr {int([$monitor set pdepartures_])}],\"dropped\":[expr {int([$monitor set pdrops_])}],\"marked\":0,\"flows\":\[[join $flows ,]\]}"
    exit 0
}
$ns at $option(-seconds) report
$ns run
