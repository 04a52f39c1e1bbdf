// A mail gateway. Its audit keeps the first bytes of each message as a slice, and so the array of the whole message.
package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"time"
)

type AuditEntry struct {
	At     time.Time
	Header []byte
}

type AuditLog struct {
	entries []AuditEntry
}

func (l *AuditLog) remember(header []byte) {
	l.entries = append(l.entries, AuditEntry{At: time.Now(), Header: header})
}

var (
	random   = rand.New(rand.NewSource(5))
	auditLog AuditLog
)

func receiveMessage() []byte {
	message := make([]byte, 4096+random.Intn(8192))
	head := fmt.Sprintf("From: user%d@example.org\n\n", random.Intn(1_000_000))
	copy(message, head)
	random.Read(message[len(head):])
	return message
}

func headerOf(message []byte) []byte {
	end := bytes.Index(message, []byte("\n\n"))
	return message[:end]
}

func handleMessage(domains map[string]int) int {
	message := receiveMessage()
	auditLog.remember(headerOf(message))
	return domains["domain-7.example.org"] + len(message)
}

func loadDomains(count int) map[string]int {
	domains := make(map[string]int, count)
	for i := 0; i < count; i++ {
		domains[fmt.Sprintf("domain-%d.example.org", i)] = i
	}
	return domains
}

func main() {
	domains := loadDomains(250_000)
	fmt.Println("ready")
	for end := time.Now().Add(120 * time.Second); time.Now().Before(end); {
		handleMessage(domains)
		time.Sleep(time.Second / 160)
	}
}
