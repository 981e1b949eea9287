// A relay of TCP connections, a pair of which does what a Kafka door and its exit do for one connection, by TLS 1.3: the
// least that others could do, as a measure for bench/kafka/run.py.
//
// Usage: relay near|far LISTEN TARGET
//
// `near` takes connections in the clear and leads them on by TLS, `far` takes TLS and leads them on in the clear.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "near|far LISTEN TARGET is wanted")
		os.Exit(2)
	}
	side, listen, target := os.Args[1], os.Args[2], os.Args[3]
	listener, err := net.Listen("tcp", listen)
	if err == nil && side == "far" {
		listener, err = secured(listener)
	}
	for err == nil {
		var from net.Conn
		if from, err = listener.Accept(); err == nil {
			go carry(from, side, target)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// With a certificate of its own, which nobody checks.
func secured(listener net.Listener) (net.Listener, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	made, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	certificates := []tls.Certificate{{Certificate: [][]byte{made}, PrivateKey: key}}
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: certificates}), err
}

func carry(from net.Conn, side, target string) {
	defer from.Close()
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	if side == "near" {
		to = tls.Client(to, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true})
	}
	defer to.Close()
	ended := make(chan bool, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			io.CopyBuffer(struct{ io.Writer }{way[1]}, struct{ io.Reader }{way[0]}, make([]byte, 64<<10))
			ended <- true
		}()
	}
	<-ended
}
