// An audio service. A thread that its C code starts mixes samples and does not free five blocks a turn; Go keeps the
// last 400 tracks.
package main

/*
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static int mix_sample(int turn) {
	char *volatile sample = malloc(600);
	memset(sample, turn, 600);
	return sample[2];
}

static void *run_mixer(void *none) {
	for (int turn = 0;; turn++) {
		for (int i = 0; i < 5; i++)
			mix_sample(turn);
		for (int i = 0; i < 40; i++) {
			char *volatile noise = malloc(100 + 30 * i);
			memset(noise, i, 100);
			free(noise);
		}
		usleep(25000);
	}
	return none;
}

static void start_mixer(void) {
	pthread_t mixer;
	pthread_create(&mixer, NULL, run_mixer, NULL);
}
*/
import "C"

import (
	"fmt"
	"time"
)

func main() {
	C.start_mixer()
	tracks := make([][]byte, 400)
	fmt.Println("ready")
	end := time.Now().Add(120 * time.Second)
	for turn := 0; time.Now().Before(end); turn++ {
		for i := 0; i < 30; i++ {
			tracks[(turn*30+i)%len(tracks)] = make([]byte, 1500+i*40)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
