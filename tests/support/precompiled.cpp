// A program for the sake of its precompiled headers, which the tests' programs share.
int main() {}
