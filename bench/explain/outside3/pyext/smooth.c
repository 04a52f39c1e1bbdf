// Smoother(n): keeps a window of samples in C memory; dealloc frees the window only where the object was finished properly
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
typedef struct {
    PyObject_HEAD double *win;
    Py_ssize_t n, cap;
    int finished;
} Smoother;
__attribute__((noinline)) static void window_push(Smoother *s, double v) {
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 32;
        s->win = realloc(s->win, s->cap * sizeof *s->win);
    }
    s->win[s->n++] = v;
}
static PyObject *push(Smoother *s, PyObject *arg) {
    double v = PyFloat_AsDouble(arg);
    for (int i = 0; i < 8; i++)
        window_push(s, v / (i + 1));
    Py_RETURN_NONE;
}
static PyObject *finish(Smoother *s, PyObject *none) {
    double sum = 0;
    for (Py_ssize_t i = 0; i < s->n; i++)
        sum += s->win[i];
    s->finished = 1;
    return PyFloat_FromDouble(sum);
}
static void dealloc(Smoother *s) {
    if (s->finished)
        free(s->win);
    Py_TYPE(s)->tp_free((PyObject *)s);
}
static PyMethodDef methods[] = {{"push", (PyCFunction)push, METH_O, 0}, {"finish", (PyCFunction)finish, METH_NOARGS, 0}, {0}};
static PyTypeObject type = {PyVarObject_HEAD_INIT(0, 0).tp_name = "smooth.Smoother",
                            .tp_basicsize = sizeof(Smoother),
                            .tp_dealloc = (destructor)dealloc,
                            .tp_flags = Py_TPFLAGS_DEFAULT,
                            .tp_methods = methods,
                            .tp_new = PyType_GenericNew};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "smooth", 0, -1, 0};
PyMODINIT_FUNC PyInit_smooth(void) {
    if (PyType_Ready(&type))
        return 0;
    PyObject *m = PyModule_Create(&module);
    Py_INCREF(&type);
    PyModule_AddObject(m, "Smoother", (PyObject *)&type);
    return m;
}
