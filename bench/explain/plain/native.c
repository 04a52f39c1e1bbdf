// What Native.java calls: the copy of the string's characters is not freed.
#include <jni.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static char *copy_chars(const char *chars) { return strdup(chars); }
JNIEXPORT jint JNICALL Java_Native_hash(JNIEnv *env, jclass self, jstring text) {
    const char *chars = (*env)->GetStringUTFChars(env, text, NULL);
    char *copy = copy_chars(chars);
    (*env)->ReleaseStringUTFChars(env, text, chars);
    return copy[0];
}
