// An upload service. Each upload sets a timer that would abort it in an hour, and nobody stops the timer when the
// upload is done. Until then the timer's closure keeps the upload.
package main

import (
	"fmt"
	"math/rand"
	"time"
)

type Upload struct {
	Number  int
	Part    []byte
	Aborted bool
}

type Uploader struct {
	limit time.Duration
	bytes int
}

func (u *Uploader) abortLater(upload *Upload) {
	time.AfterFunc(u.limit, func() {
		upload.Aborted = true
		upload.Part = nil
	})
}

func (u *Uploader) store(upload *Upload) {
	u.bytes += len(upload.Part)
}

var random = rand.New(rand.NewSource(4))

func receivePart(number int) *Upload {
	part := make([]byte, 1500+random.Intn(3000))
	random.Read(part)
	return &Upload{Number: number, Part: part}
}

func handleUpload(uploader *Uploader, number int) {
	upload := receivePart(number)
	uploader.abortLater(upload)
	uploader.store(upload)
}

func loadOwners(count int) map[int]string {
	owners := make(map[int]string, count)
	for i := 0; i < count; i++ {
		owners[i] = fmt.Sprintf("owner %d of the team %d, office %d", i, i%77, i%13)
	}
	return owners
}

func main() {
	owners := loadOwners(200_000)
	uploader := &Uploader{limit: time.Hour}
	fmt.Println("ready")
	number := 0
	for end := time.Now().Add(120 * time.Second); time.Now().Before(end) && len(owners) > 0; number++ {
		handleUpload(uploader, number)
		time.Sleep(time.Second / 300)
	}
}
