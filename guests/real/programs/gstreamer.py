"""GStreamer: plugins for every element, a thread for each queue."""
import hashlib
import subprocess

from programs._program import RealProgram

# vp8enc with a deadline chooses its effort by the clock: on a busy machine the file differs.
PIPES = {
    "vp8": "videotestsrc num-buffers={n} ! video/x-raw,width=320,height=240 ! queue ! videoconvert ! "
           "vp8enc deadline=0 cpu-used=8 threads=1 ! filesink location=a",
    "jpeg": "videotestsrc pattern=ball num-buffers={n} ! queue ! videoscale ! video/x-raw,width=200,height=100 ! jpegenc ! "
            "avimux ! filesink location=b",
    "flac": "audiotestsrc num-buffers={n} wave=ticks ! queue ! audioconvert ! audioresample ! audio/x-raw,rate=8000 ! "
            "flacenc ! filesink location=c",
    "two": "videotestsrc num-buffers={n} ! tee name=t ! queue ! pngenc ! filesink location=d  t. ! queue ! "
           "videoconvert ! videoflip method=clockwise ! videoconvert ! y4menc ! filesink location=e",
    "wrong": "videotestsrc num-buffers=10 ! nosuchelement ! fakesink",
}


class Program(RealProgram):
    name, workload = "gstreamer", "4 pipelines with 15 elements, the registry scanned anew, one error"
    processes = ("gst-launch-1.0", "gst-plugin-scan", "queue")

    def find(self, unpacked):
        self.at = unpacked("gstreamer1.0-tools", "gstreamer1.0-plugins-base", "gstreamer1.0-plugins-good")
        self.launcher = self.at.program("gst-launch-1.0")

    def version(self):
        done = subprocess.run([self.launcher, "--version"], env=self.at.environment(), capture_output=True, text=True)
        return done.stdout.split()[2] if done.returncode == 0 else done.stderr

    def round(self, launch):
        results = {}
        registry = launch.folder / "registry"
        registry.unlink(missing_ok=True)
        environment = self.at.environment(GST_REGISTRY=str(registry), GST_PLUGIN_PATH=str(
            self.at.root / "usr/lib/x86_64-linux-gnu/gstreamer-1.0"))
        for name, pipe in PIPES.items():
            done = launch.run([self.launcher, "-q", *pipe.format(n=200).split()], environment)
            results[name] = [done.status, done.out, done.errors]
        for file in "abcde":
            path = launch.folder / file
            results[f"file {file}"] = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "not there"
        return results
