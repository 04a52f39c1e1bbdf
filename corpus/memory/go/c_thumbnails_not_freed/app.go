// An image service over a C scaler. A preview is freed by its caller; of thumbnails, those that are too bright are sent
// back without being freed.
package main

/*
#cgo CFLAGS: -O2 -g
#include <stdlib.h>
#include <string.h>

struct picture {
	int width, height;
	unsigned char *points;
};

__attribute__((noinline)) static unsigned char *points_new(int width, int height, int seed) {
	unsigned char row[1024];
	unsigned char *points = malloc((size_t)width * height);
	for (int x = 0; x < width; x++)
		row[x] = (unsigned char)(x * seed);
	for (int y = 0; y < height; y++)
		memcpy(points + (size_t)y * width, row, width);
	return points;
}

static struct picture *picture_scaled(int width, int height, int seed) {
	struct picture *picture = malloc(sizeof *picture);
	picture->width = width;
	picture->height = height;
	picture->points = points_new(width, height, seed);
	return picture;
}

static int picture_brightness(const struct picture *picture) {
	int sum = 0;
	for (int i = 0; i < 64; i++)
		sum += picture->points[i];
	return sum / 64;
}

static void picture_free(struct picture *picture) {
	free(picture->points);
	free(picture);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"math/rand"
	"time"
)

var errTooBright = errors.New("too bright")

type order struct {
	number int
	side   int
}

//go:noinline
func renderPreview(work order) int {
	picture := C.picture_scaled(C.int(work.side), C.int(work.side), C.int(work.number))
	defer C.picture_free(picture)
	return int(C.picture_brightness(picture))
}

//go:noinline
func renderThumbnail(work order) (int, error) {
	picture := C.picture_scaled(C.int(work.side), C.int(work.side/2), C.int(work.number))
	brightness := int(C.picture_brightness(picture))
	if brightness > 120 {
		return 0, errTooBright
	}
	C.picture_free(picture)
	return brightness, nil
}

func serveOrders(orders <-chan order, served chan<- int) {
	for work := range orders {
		sum := renderPreview(work)
		if brightness, err := renderThumbnail(work); err == nil {
			sum += brightness
		}
		served <- sum
	}
}

func main() {
	orders, served := make(chan order), make(chan int, 64)
	for worker := 0; worker < 4; worker++ {
		go serveOrders(orders, served)
	}
	recent := map[int][]byte{}
	random := rand.New(rand.NewSource(7))
	sum := 0
	go func() {
		for brightness := range served {
			sum += brightness
		}
	}()
	for number, end := 0, time.Now().Add(120*time.Second); time.Now().Before(end); number++ {
		orders <- order{number, 64 + random.Intn(64)}
		recent[number%4000] = make([]byte, 2048)
		if number == 4000 {
			fmt.Println("ready")
		}
		if number%2 == 0 {
			time.Sleep(4 * time.Millisecond)
		}
	}
	fmt.Println(sum)
}
