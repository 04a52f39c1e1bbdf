// a Python extension that splits a CSV row; rows with quotes return before the column buffer is freed
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>
static long lost_;
__attribute__((noinline)) static long split_columns(const char *s, Py_ssize_t n) {
    char *cols = malloc(n + 64);
    memcpy(cols, s, n);
    cols[n] = 0;
    long k = 0;
    for (char *p = cols; (p = strchr(p, ',')); p++) {
        *p = 0;
        k++;
    }
    if (cols[0] == '"') { /* quoted: the slow way counts it again */
        lost_ += n + 64;
        return -k;
    }
    free(cols);
    return k;
}
static PyObject *parse(PyObject *self, PyObject *args) {
    const char *s;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "y#", &s, &n))
        return 0;
    return PyLong_FromLong(split_columns(s, n));
}
static PyObject *lost(PyObject *self, PyObject *args) {
    return PyLong_FromLong(lost_);
}
static PyMethodDef methods[] = {{"parse", parse, METH_VARARGS, 0}, {"lost", lost, METH_NOARGS, 0}, {0}};
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "fastrow", 0, -1, methods};
PyMODINIT_FUNC PyInit_fastrow(void) {
    return PyModule_Create(&def);
}
