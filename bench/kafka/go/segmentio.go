package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type segmentio struct{}

func (segmentio) produce(bootstrap, topic, codec string, values [][]byte) error {
	codecs := map[string]kafka.Compression{
		"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	number := -1
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, Compression: codecs[codec], BatchSize: 1000,
		BatchTimeout: 10 * time.Millisecond, RequiredAcks: kafka.RequireAll,
		// Messages come here in their order.
		Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int {
			number++
			return number % partitions
		})}
	var messages []kafka.Message
	for _, value := range values {
		messages = append(messages, kafka.Message{Value: value})
	}
	if err := writer.WriteMessages(context.Background(), messages...); err != nil {
		return err
	}
	return writer.Close()
}

func (segmentio) consume(ctx context.Context, bootstrap, topic string, count int, got func(int, int64, []byte)) error {
	var all sync.WaitGroup
	for partition := range count {
		reader := kafka.NewReader(kafka.ReaderConfig{
			Brokers: []string{bootstrap}, Topic: topic, Partition: partition, MaxBytes: 10 << 20,
			MaxWait: 500 * time.Millisecond})
		all.Add(1)
		go func() {
			defer all.Done()
			defer reader.Close()
			for {
				message, err := reader.ReadMessage(ctx)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					// It says so after some attempts, and goes on if it is asked again.
					fmt.Fprintln(os.Stderr, err)
					continue
				}
				got(message.Partition, message.Offset, message.Value)
			}
		}()
	}
	all.Wait()
	return nil
}
