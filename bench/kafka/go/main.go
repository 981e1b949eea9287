// Clients of Kafka in Go: franz-go, sarama and kafka-go, for bench/kafka/clients.py.
//
// Usage: clients CLIENT produce BOOTSTRAP TOPIC CODEC
//
//	clients CLIENT consume BOOTSTRAP TOPIC SECONDS END...
//
// `produce` sends the lines of its input, which are in base64; line n goes to partition n modulo 3. `consume` reads
// partitions 0, 1, ... from their beginnings to these ends, or as far as it gets in so many seconds. It prints a line with
// partition, offset and value for each record, and then one with `position`, partition and the next offset for each partition.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

const partitions = 3

// A client: both functions come back when they have done what they should, or fail.
type client interface {
	produce(bootstrap, topic, codec string, values [][]byte) error
	// Calls `got` for each record, from one goroutine for each partition at most, until the context ends.
	consume(ctx context.Context, bootstrap, topic string, count int, got func(partition int, offset int64, value []byte)) error
}

var clients = map[string]client{"franz-go": franz{}, "sarama": ibmSarama{}, "kafka-go": segmentio{}}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 5 {
		return fmt.Errorf("CLIENT produce|consume BOOTSTRAP TOPIC ... is wanted")
	}
	chosen, known := clients[arguments[0]]
	if !known {
		return fmt.Errorf("there is no client `%s`", arguments[0])
	}
	bootstrap, topic := arguments[2], arguments[3]
	switch arguments[1] {
	case "produce":
		values, err := lines()
		if err != nil {
			return err
		}
		return chosen.produce(bootstrap, topic, arguments[4], values)
	case "consume":
		seconds, err := strconv.Atoi(arguments[4])
		if err != nil {
			return err
		}
		var ends []int64
		for _, text := range arguments[5:] {
			end, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			ends = append(ends, end)
		}
		return consume(chosen, bootstrap, topic, time.Duration(seconds)*time.Second, ends)
	}
	return fmt.Errorf("`%s` is neither produce nor consume", arguments[1])
}

func lines() ([][]byte, error) {
	var values [][]byte
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	for input.Scan() {
		value, err := base64.StdEncoding.DecodeString(input.Text())
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, input.Err()
}

func consume(chosen client, bootstrap, topic string, patience time.Duration, ends []int64) error {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	positions := make([]int64, len(ends))
	var one sync.Mutex
	got := func(partition int, offset int64, value []byte) {
		one.Lock()
		defer one.Unlock()
		fmt.Fprintln(output, partition, offset, base64.StdEncoding.EncodeToString(value))
		positions[partition] = offset + 1
		for each, position := range positions {
			if position < ends[each] {
				return
			}
		}
		stop()
	}
	err := chosen.consume(ctx, bootstrap, topic, len(ends), got)
	one.Lock()
	defer one.Unlock()
	for partition, position := range positions {
		fmt.Fprintln(output, "position", partition, position)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}
