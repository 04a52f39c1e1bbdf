"""Go with cgo: goroutines that allocate in C, callbacks from C, threads that exit locked."""
import os
import shutil
import subprocess

from launch import Skipped
from programs._program import RealProgram

SOURCE = r'''package main

/*
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
extern int back(int);
static int work(int n) {
	int sum = 0;
	for (int i = 0; i < n; i++) {
		char *block = malloc(1 + i * 37 % 5000);
		memset(block, 1, 1 + i * 37 % 5000);
		sum += block[0];
		if (i % 100 == 0) sum += back(i);
		free(block);
	}
	return sum;
}
static void *thread(void *n) { return (void *)(long)(back(1) + work((int)(long)n)); }
static int on_a_thread(int n) {
	pthread_t id; void *result;
	pthread_create(&id, 0, thread, (void *)(long)n);
	pthread_join(id, &result);
	return (int)(long)result;
}
*/
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
)

//export back
func back(n C.int) C.int { s := make([]byte, int(n)%1000+1); return C.int(len(s) % 3) }

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	sums := make([]int, 40)
	var group sync.WaitGroup
	for i := range sums {
		group.Add(1)
		go func() {
			defer group.Done()
			if i%4 == 0 { runtime.LockOSThread() }
			kept := map[int][]byte{}
			for j := 0; j < n; j++ {
				kept[j%500] = make([]byte, j%3000)
				sums[i] += len(kept[j%500])
			}
			sums[i] += int(C.work(C.int(n))) + int(C.on_a_thread(C.int(n/10)))
		}()
	}
	group.Wait()
	runtime.GC()
	out, err := exec.Command("sh", "-c", "echo child; exit 3").Output()
	fmt.Println(sums, string(out), err)
	os.Exit(8)
}
'''


class Program(RealProgram):
    name, workload = "go", "40 goroutines with cgo, callbacks, locked threads that exit"
    processes = ("guest-go",)

    def find(self, unpacked):
        self.go = shutil.which("go")
        if not (self.go and shutil.which("gcc")):
            raise Skipped("no go and gcc on the PATH")

    def version(self):
        return subprocess.run([self.go, "env", "GOVERSION"], capture_output=True, text=True).stdout.strip()

    def start(self, launch):
        # go takes no go.mod in the folder for temporary files.
        source = launch.folder / "source"
        source.mkdir()
        (source / "main.go").write_text(SOURCE)
        (source / "go.mod").write_text("module guest\n\ngo 1.22\n")
        home = os.environ.get("HOME", "/")
        cache = {"GOCACHE": os.environ.get("GOCACHE", f"{home}/.cache/go-build"), "GOFLAGS": "-mod=mod",
                 "CGO_ENABLED": "1", "GOTOOLCHAIN": "local"}
        done = launch.tool([self.go, "build", "-o", "../guest-go", "."], cache, cwd=source)
        assert done.status == 0, done.errors

    def round(self, launch):
        done = launch.run([launch.folder / "guest-go", "40000"])
        return {"exit status": done.status, "output": done.out, "errors": done.errors}
