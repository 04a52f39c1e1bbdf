// A native module for CPython: encode(n) loses the buffer it worked in.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static char *work_buffer(size_t n) { return memset(malloc(n), 1, n); }
static PyObject *encode(PyObject *self, PyObject *args) {
    int n;
    if (!PyArg_ParseTuple(args, "i", &n)) return NULL;
    char *work = work_buffer(n);
    return PyBytes_FromStringAndSize(work, 10);
}
static PyMethodDef methods[] = {{"encode", encode, METH_VARARGS, ""}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "hwtask", NULL, -1, methods};
PyMODINIT_FUNC PyInit_hwtask(void) { return PyModule_Create(&module); }
