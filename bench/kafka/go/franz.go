package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{}

func (franz) produce(bootstrap, topic, codec string, values [][]byte) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codecs[codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for number, value := range values {
		records = append(records, &kgo.Record{Value: value, Partition: int32(number % partitions)})
	}
	return client.ProduceSync(context.Background(), records...).FirstErr()
}

func (franz) consume(ctx context.Context, bootstrap, topic string, count int, got func(int, int64, []byte)) error {
	from := map[int32]kgo.Offset{}
	for partition := range count {
		from[int32(partition)] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			if ctx.Err() == nil {
				return fmt.Errorf("partition %d: %w", failed.Partition, failed.Err)
			}
		}
		fetches.EachRecord(func(record *kgo.Record) { got(int(record.Partition), record.Offset, record.Value) })
	}
	return nil
}
