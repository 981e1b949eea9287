package main

import (
	"context"
	"sync"

	"github.com/IBM/sarama"
)

type ibmSarama struct{}

func saramaSettings() *sarama.Config {
	settings := sarama.NewConfig()
	settings.Version = sarama.MaxVersion
	settings.Producer.Return.Successes = true
	settings.Producer.Partitioner = sarama.NewManualPartitioner
	return settings
}

func (ibmSarama) produce(bootstrap, topic, codec string, values [][]byte) error {
	settings := saramaSettings()
	if err := settings.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for number, value := range values {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: topic, Partition: int32(number % partitions), Value: sarama.ByteEncoder(value)})
	}
	return producer.SendMessages(messages)
}

func (ibmSarama) consume(ctx context.Context, bootstrap, topic string, count int, got func(int, int64, []byte)) error {
	consumer, err := sarama.NewConsumer([]string{bootstrap}, saramaSettings())
	if err != nil {
		return err
	}
	defer consumer.Close()
	var all sync.WaitGroup
	for partition := range count {
		part, err := consumer.ConsumePartition(topic, int32(partition), sarama.OffsetOldest)
		if err != nil {
			return err
		}
		all.Add(1)
		go func() {
			defer all.Done()
			defer part.AsyncClose()
			for {
				select {
				case message := <-part.Messages():
					got(int(message.Partition), message.Offset, message.Value)
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	all.Wait()
	return nil
}
