// A gateway that lists its requests in flight in a sync.Map. A request that fails is never taken off the list, and
// its context keeps the values that the layers put there.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"time"
)

type contextKey string

type Identity struct {
	User   string
	Groups []string
	Claims map[string]string
}

type Gateway struct {
	inFlight sync.Map
	random   *rand.Rand
}

var errUpstream = errors.New("upstream failed")

func (g *Gateway) authenticate(ctx context.Context) context.Context {
	identity := &Identity{User: fmt.Sprintf("user %d", g.random.Intn(1_000_000)), Claims: map[string]string{}}
	for i := 0; i < 12; i++ {
		identity.Groups = append(identity.Groups, fmt.Sprintf("group %d", g.random.Intn(10_000)))
	}
	for i := 0; i < 6; i++ {
		identity.Claims[fmt.Sprintf("claim %d", i)] = fmt.Sprintf("value %d", g.random.Intn(1_000_000))
	}
	return context.WithValue(ctx, contextKey("identity"), identity)
}

func (g *Gateway) callUpstream(ctx context.Context) error {
	identity := ctx.Value(contextKey("identity")).(*Identity)
	if len(identity.User)%2 == 0 || g.random.Intn(2) == 0 {
		return errUpstream
	}
	return nil
}

func (g *Gateway) handleRequest(number int) error {
	ctx := g.authenticate(context.WithValue(context.Background(), contextKey("number"), number))
	g.inFlight.Store(number, ctx)
	if err := g.callUpstream(ctx); err != nil {
		return err
	}
	g.inFlight.Delete(number)
	return nil
}

func loadRoutes(count int) map[string][]string {
	routes := make(map[string][]string, count)
	for i := 0; i < count; i++ {
		routes[fmt.Sprintf("/service-%d/v%d", i, i%4)] = []string{fmt.Sprintf("10.0.%d.7", i%256), "10.1.0.1"}
	}
	return routes
}

func main() {
	routes := loadRoutes(120_000)
	gateway := &Gateway{random: rand.New(rand.NewSource(6))}
	fmt.Println("ready")
	number := 0
	for end := time.Now().Add(120 * time.Second); time.Now().Before(end) && len(routes) > 0; number++ {
		gateway.handleRequest(number)
		time.Sleep(time.Second / 900)
	}
}
