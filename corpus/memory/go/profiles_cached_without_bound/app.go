// A profile service. Its cache is a map without a bound, and hardly any user comes twice.
package main

import (
	"fmt"
	"math/rand"
	"time"
)

type Profile struct {
	User     int
	Name     string
	Friends  []int
	Settings map[string]string
}

type ProfileCache struct {
	byUser map[int]*Profile
}

func (c *ProfileCache) profileOf(user int) *Profile {
	profile, known := c.byUser[user]
	if !known {
		profile = loadProfile(user)
		c.byUser[user] = profile
	}
	return profile
}

func loadProfile(user int) *Profile {
	friends := make([]int, 120)
	for i := range friends {
		friends[i] = random.Intn(10_000_000)
	}
	return &Profile{
		User:    user,
		Name:    fmt.Sprintf("user number %d", user),
		Friends: friends,
		Settings: map[string]string{
			"mail":     fmt.Sprintf("%d@example.org", user),
			"zone":     fmt.Sprintf("zone %d", user%24),
			"lastPage": fmt.Sprintf("/page/%d", random.Intn(1_000_000)),
		},
	}
}

var (
	random       = rand.New(rand.NewSource(1))
	profileCache = &ProfileCache{byUser: map[int]*Profile{}}
)

func handleProfile(cities []string) string {
	profile := profileCache.profileOf(random.Intn(1_000_000_000))
	return profile.Name + " in " + cities[profile.User%len(cities)]
}

func loadCities(count int) []string {
	cities := make([]string, count)
	for i := range cities {
		cities[i] = fmt.Sprintf("city number %d in the district of %d, region %d", i, i%977, i%31)
	}
	return cities
}

func main() {
	cities := loadCities(300_000)
	fmt.Println("ready")
	for end := time.Now().Add(120 * time.Second); time.Now().Before(end); {
		handleProfile(cities)
		time.Sleep(time.Second / 700)
	}
}
