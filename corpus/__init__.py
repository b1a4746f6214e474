"""Real kernels, their real knobs and real output bytes: the instrument that grades samebits.

``spec`` says what a kernel configuration is, ``kernels`` holds the Triton sources, ``build``
compiles them to assembly text, ``inputs`` draws the data, ``truth`` runs them on a GPU, ``load``
reads what is committed. Nothing here is imported by the checker.
"""
