// A billing service with a lock per tenant. One way out of the booking forgets to unlock, so later bookings of that
// tenant wait for ever, each with its request.
package main

import (
	"fmt"
	"math/rand"
	"sync"
	"time"
)

type Booking struct {
	Tenant  int
	Cents   int
	Receipt []byte
}

type Ledger struct {
	lock    sync.Mutex
	balance int
}

type Bank struct {
	ledgers []*Ledger
}

func (b *Bank) bookOnLedger(booking *Booking) bool {
	ledger := b.ledgers[booking.Tenant]
	ledger.lock.Lock()
	if ledger.balance+booking.Cents < 0 {
		return false // the lock stays locked
	}
	ledger.balance += booking.Cents
	ledger.lock.Unlock()
	return true
}

var random = rand.New(rand.NewSource(3))

func readBooking(tenants int) *Booking {
	receipt := make([]byte, 2048+random.Intn(2048))
	random.Read(receipt)
	return &Booking{Tenant: random.Intn(tenants), Cents: random.Intn(2000) - 900, Receipt: receipt}
}

func handleBooking(bank *Bank) {
	booking := readBooking(len(bank.ledgers))
	go bank.bookOnLedger(booking)
}

func loadCustomers(count int) map[string][]string {
	customers := make(map[string][]string, count)
	for i := 0; i < count; i++ {
		name := fmt.Sprintf("customer %d", i)
		customers[name] = []string{fmt.Sprintf("%d Long Street", i%900), fmt.Sprintf("town %d", i%3000)}
	}
	return customers
}

func main() {
	customers := loadCustomers(100_000)
	bank := &Bank{}
	for tenant := 0; tenant < 40; tenant++ {
		bank.ledgers = append(bank.ledgers, &Ledger{balance: random.Intn(500)})
	}
	fmt.Println("ready")
	for end := time.Now().Add(120 * time.Second); time.Now().Before(end) && len(customers) > 0; {
		handleBooking(bank)
		time.Sleep(time.Second / 200)
	}
}
