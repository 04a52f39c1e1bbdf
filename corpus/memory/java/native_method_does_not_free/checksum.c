#include <jni.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static char *copy_letters(const char *letters) {
    return strdup(letters);
}

JNIEXPORT jint JNICALL Java_App_hashText(JNIEnv *env, jclass self, jstring text) {
    const char *letters = (*env)->GetStringUTFChars(env, text, NULL);
    char *copy = copy_letters(letters);
    (*env)->ReleaseStringUTFChars(env, text, letters);
    return copy[0];
}
