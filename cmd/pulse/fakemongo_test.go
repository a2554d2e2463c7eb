//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// serveMongo is as much of a MongoDB server as pulse dev needs to find it ready: it answers hello and ping,
// and is a primary at once or, like mongod, after replSetInitiate. It takes the port from the server's or
// the container runtime's command line and serves until it is killed.
func serveMongo(args []string, initiate bool) int {
	port := "27017"
	for i, arg := range args {
		if arg == "--port" {
			port = args[i+1]
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return fail(err)
	}
	s := &fakeMongo{addr: l.Addr().String()}
	s.primary.Store(!initiate)
	for {
		conn, err := l.Accept()
		if err != nil {
			return fail(err)
		}
		go s.serve(conn)
	}
}

type fakeMongo struct {
	addr    string
	primary atomic.Bool
}

const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

func (s *fakeMongo) serve(conn net.Conn) {
	defer conn.Close()
	for {
		header := make([]byte, 16)
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		body := make([]byte, binary.LittleEndian.Uint32(header)-16)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		reply, code := s.answer(binary.LittleEndian.Uint32(header[12:]), body)
		out := binary.LittleEndian.AppendUint32(nil, uint32(16+len(reply)))
		out = append(out, 0, 0, 0, 0)
		out = append(out, header[4:8]...) // in answer to this request
		out = binary.LittleEndian.AppendUint32(out, code)
		if _, err := conn.Write(append(out, reply...)); err != nil {
			return
		}
	}
}

// answer returns the body of the answer and its code: OP_REPLY for the first handshake, OP_MSG afterwards.
func (s *fakeMongo) answer(code uint32, body []byte) ([]byte, uint32) {
	if code == opQuery {
		prefix := binary.LittleEndian.AppendUint32(make([]byte, 16), 1) // flags, cursor, start, one document
		return append(prefix, s.hello()...), opReply
	}
	command := bson.Raw(body[5 : 5+binary.LittleEndian.Uint32(body[5:])]) // after the flags and the section's kind
	first, _ := command.IndexErr(0)
	doc := marshal(bson.D{{Key: "ok", Value: 1}})
	switch key := first.Key(); key {
	case "hello", "isMaster", "ismaster":
		doc = s.hello()
	case "replSetInitiate":
		s.primary.Store(true)
	case "ping", "endSessions":
	default:
		doc = marshal(bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 59}, {Key: "errmsg", Value: fmt.Sprintf("no command %s", key)}})
	}
	return append(make([]byte, 5), doc...), opMsg
}

func (s *fakeMongo) hello() []byte {
	doc := bson.D{
		{Key: "ok", Value: 1},
		{Key: "helloOk", Value: true},
		{Key: "isWritablePrimary", Value: s.primary.Load()},
		{Key: "ismaster", Value: s.primary.Load()},
		{Key: "maxBsonObjectSize", Value: 16 << 20},
		{Key: "maxMessageSizeBytes", Value: 48000000},
		{Key: "maxWriteBatchSize", Value: 100000},
		{Key: "minWireVersion", Value: 0},
		{Key: "maxWireVersion", Value: 25},
	}
	if s.primary.Load() {
		doc = append(doc,
			bson.E{Key: "setName", Value: "fake"},
			bson.E{Key: "setVersion", Value: 1},
			bson.E{Key: "me", Value: s.addr},
			bson.E{Key: "primary", Value: s.addr},
			bson.E{Key: "hosts", Value: bson.A{s.addr}},
		)
	} else {
		doc = append(doc, bson.E{Key: "isreplicaset", Value: true})
	}
	return marshal(doc)
}

func marshal(doc bson.D) []byte {
	data, err := bson.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return data
}
