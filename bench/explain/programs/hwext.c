// An extension of CPython whose function forgets a buffer.
#include <Python.h>
__attribute__((noinline)) void make_buffer(long size) { char *volatile buffer = malloc(size); memset(buffer, 1, size); }
static PyObject *make(PyObject *self, PyObject *size) { (void)self; make_buffer(PyLong_AsLong(size)); Py_RETURN_NONE; }
static PyMethodDef methods[] = {{"make", make, METH_O, "Forgets a buffer."}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "hwext", 0, -1, methods, 0, 0, 0, 0};
PyMODINIT_FUNC PyInit_hwext(void) { return PyModule_Create(&module); }
