// RUN: not qdialect-opt --canonicaliz %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not qdialect-opt -p cse,nothing %s 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not qdialect-opt --cse=depth=3 %s 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not qdialect-opt --fold-quant-shapes=depth=3 %s 2>&1 | filecheck %s --check-prefix=OPTIONS
// RUN: not qdialect-opt --fold-quant-shapes=max-growth=1GiB %s 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not qdialect-opt --fold-quant-shapes=max-parameter-growth=1,2 %s 2>&1 | filecheck %s --check-prefix=OPTIONAL
// RUN: not qdialect-opt --equalize-inputs=strength=nan %s 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not qdialect-opt --equalize-inputs=layers=a,3 %s 2>&1 | filecheck %s --check-prefix=WORDS
// RUN: not qdialect-opt --fold-quant-shapes=granularity=per-axis,max-growth=5 %s 2>&1 | filecheck %s --check-prefix=COMMA
// RUN: not qdialect-opt -p fold-quant-shape %s 2>&1 | filecheck %s --check-prefix=NEAR
// RUN: not qdialect-opt fold-quant-shapes %s 2>&1 | filecheck %s --check-prefix=DASHES
// RUN: not qdialect-opt fold-quant-shapes 2>&1 | filecheck %s --check-prefix=DASHES
// RUN: not qdialect-opt --canonicalize=region-simplify=much %s 2>&1 | filecheck %s --check-prefix=CHOICE
// RUN: not qdialect-opt --canonicalize=test-convergence=much %s 2>&1 | filecheck %s --check-prefix=FLAG
// RUN: not qdialect-opt -p 'cse{' %s 2>&1 | filecheck %s --check-prefix=PIPELINE
// RUN: not qdialect-opt --pass-pipeline=cse %s 2>&1 | filecheck %s --check-prefix=ANCHOR
// RUN: not qdialect-opt --pass-pipeline='builtin.module(func.func(nothing))' %s 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: not qdialect-opt --pass-pipeline='builtin.module(cse)' --cse %s 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not qdialect-opt --verify-each=perhaps %s 2>&1 | filecheck %s --check-prefix=BOOLEAN
// RUN: not qdialect-opt %s -o 2>&1 | filecheck %s --check-prefix=ABSENT
// RUN: not qdialect-opt %s %s 2>&1 | filecheck %s --check-prefix=INPUTS
// RUN: not qdialect-opt %s -t nothing 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not qdialect-opt %s.nothing 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not qdialect-opt %S 2>&1 | filecheck %s --check-prefix=DIRECTORY

// UNKNOWN: qdialect-opt: error: unknown command line argument '--canonicaliz'; try 'qdialect-opt --help'; did you mean '--canonicalize'?
// PASS: qdialect-opt: error: 'nothing' does not refer to a registered pass or pass pipeline
// OPTION: qdialect-opt: error: pass 'cse' has no option 'depth' (it has: none)
// OPTIONS: qdialect-opt: error: pass 'fold-quant-shapes' has no option 'depth' (it has: max-parameter-growth, max-growth, max-repetition
// VALUE: qdialect-opt: error: pass 'fold-quant-shapes': max-growth must be a number of bytes, but is '1GiB'
// OPTIONAL: qdialect-opt: error: pass 'fold-quant-shapes': max-parameter-growth must be an integer, but is '1,2'
// NUMBER: qdialect-opt: error: pass 'equalize-inputs': strength must be a number, but is 'nan'
// WORDS: qdialect-opt: error: pass 'equalize-inputs': layers must be words: put them in quotes, but has '3'
// COMMA: qdialect-opt: error: cannot read 'fold-quant-shapes{granularity=per-axis,max-growth=5}': options are separated by spaces: 'fold-quant-shapes{granularity=per-axis max-growth=5}'
// NEAR: qdialect-opt: error: 'fold-quant-shape' does not refer to a registered pass or pass pipeline; did you mean 'fold-quant-shapes'?
// DASHES: qdialect-opt: error: there is no input file 'fold-quant-shapes'; did you mean the pass '--fold-quant-shapes'?
// CHOICE: qdialect-opt: error: pass 'canonicalize': region-simplify must be one of disabled, normal, aggressive, but is 'much'
// FLAG: qdialect-opt: error: pass 'canonicalize': test-convergence must be true or false, but is 'much'
// PIPELINE: qdialect-opt: error: cannot read 'cse{': Expected argument name here
// ANCHOR: qdialect-opt: error: expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module(...)'
// NESTED: qdialect-opt: error: 'nothing' does not refer to a registered pass or pass pipeline
// BOTH: qdialect-opt: error: '-pass-pipeline' option can't be used with individual pass options
// BOOLEAN: qdialect-opt: error: for the --verify-each option: 'perhaps' is not true or false
// ABSENT: qdialect-opt: error: for the -o option: requires a value!
// INPUTS: qdialect-opt: error: more than one input file: {{.*}}, {{.*}}
// TARGET: qdialect-opt: error: there is no target 'nothing'
// MISSING: qdialect-opt: error: cannot open input file '{{.*}}': No such file or directory
// DIRECTORY: qdialect-opt: error: cannot open input file '{{.*}}': Is a directory
